"""Runs Prometheus 2.42 and promtool from Debian 12's package, else those of the machine.

Targets are in a file that the server watches, so a scrape begins and ends while it runs. Rules are
in files that it reads once at its start.
"""

import contextlib
import json
import shutil
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stack.debian import unpacked
from stack.errors import StackError, Unavailable
from stack.process import free_port
from stack.server import Server


class Prometheus(Server):
    """A Prometheus: `with Prometheus(folder, rules=[...]) as p: p.scrape({"worker":
    ["127.0.0.1:8083"]})`.
    """

    def __init__(self, folder: Path, *, rules: Sequence[Path] = (), interval_s: float = 1.0) -> None:
        """Prepare the settings. ``interval_s`` is the interval of scrapes and rule evaluations."""
        super().__init__("Prometheus", folder, log="prometheus.log")
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.targets_file = self.folder / "targets.json"
        self._rules = [str(path.absolute()) for path in rules]
        self._interval_s = interval_s

    def prepare(self) -> list[str]:
        interval = f"{round(self._interval_s * 1000)}ms"
        config = {
            "global": {"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": interval},
            "rule_files": self._rules,
            # The label `job` comes with the targets.
            "scrape_configs": [{"job_name": "dblog", "file_sd_configs": [{"files": [str(self.targets_file)], "refresh_interval": "1s"}]}],
        }
        (self.folder / "prometheus.json").write_text(json.dumps(config, indent=2))  # JSON is YAML
        if not self.targets_file.exists():
            self.scrape({})
        return [
            *program("prometheus"),
            f"--config.file={self.folder / 'prometheus.json'}",
            f"--storage.tsdb.path={self.folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
            "--log.level=warn",
        ]

    def answers(self) -> bool:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{self.url}/-/ready", timeout=5) as answer:  # noqa: S310  our own address
            return bool(answer.status == 200)  # noqa: PLR2004  it is ready, and not only there
        return False

    def scrape(self, targets: Mapping[str, Sequence[str]]) -> None:
        """Scrape these targets from now on, as `host:port` by job, and no others."""
        groups = [{"targets": list(addresses), "labels": {"job": job}} for job, addresses in targets.items()]
        partial = self.targets_file.with_suffix(".partial")
        partial.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(json.dumps(groups))
        partial.rename(self.targets_file)

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the current series of an expression, each with `metric` and `value`.

        Raise StackError with Prometheus's message if it is refused.
        """
        found: dict[str, Any] = self._get("query", {"query": expression})
        result = found["result"]
        if found["resultType"] == "scalar":
            return [{"metric": {}, "value": result}]
        return list(result)

    def firing(self) -> dict[str, list[dict[str, str]]]:
        """Return the labels of the firing alerts by alert."""
        found: dict[str, list[dict[str, str]]] = {}
        for alert in self.alerts():
            if alert["state"] == "firing":
                found.setdefault(alert["labels"]["alertname"], []).append(alert["labels"])
        return found

    def alerts(self) -> list[dict[str, Any]]:
        """Return the firing and pending alerts with `state`, `labels` and `annotations`."""
        return list(self._get("alerts", {})["alerts"])

    def _get(self, resource: str, parameters: Mapping[str, str]) -> dict[str, Any]:
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/{resource}?{urllib.parse.urlencode(parameters)}", timeout=30) as answer:  # noqa: S310
                data: dict[str, Any] = json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise StackError(f"Prometheus refuses {parameters or resource}: {error.read().decode(errors='replace')}") from error
        return data


def program(name: str) -> list[str]:
    """Return the command of `prometheus` or `promtool`."""
    try:
        return unpacked("prometheus", package="prometheus", suite="bookworm").command(f"usr/bin/{name}")
    except Unavailable as missing:
        found = shutil.which(name)
        if found is None:
            raise Unavailable(f"{name} cannot be had here: {missing}. Install Prometheus so that {name} is on the PATH") from missing
        return [found]
