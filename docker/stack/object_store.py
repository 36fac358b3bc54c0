"""Runs a store with S3's interface and a bucket `lake`, with faults on request.

It can give slow answers, refusals, and lose answers. It is moto's server, which of those in package
registries supports most of S3's interface, in a program that can be asked for faults. It answers
one request at a time, so it keeps S3's promises: a list or read sees every write that was answered
before, and of two writes under the condition that there is no such object (If-None-Match) one is
refused. It keeps everything in memory.
"""

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stack.process import free_port
from stack.server import Server

BUCKET = "lake"
_PROGRAM = Path(__file__).with_name("object_store_program.py")
_PYTHON = Path(__file__).parents[2] / "build" / "venv" / "bin" / "python"
_OK = 200


class ObjectStore(Server):
    """An object store: `with ObjectStore(folder) as store: store.address`."""

    def __init__(self, folder: Path) -> None:
        super().__init__("the object store", folder, log="object-store.log")
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}"

    def prepare(self) -> list[str]:
        return [str(_PYTHON), str(_PROGRAM), str(self.port), BUCKET]

    def answers(self) -> bool:
        try:
            return bool(self._asked("GET")["ready"])
        except urllib.error.URLError:
            return False

    @property
    def spark_options(self) -> dict[str, str]:
        """Options with which Spark reaches it by `s3a://`."""
        store = {
            "endpoint": self.address,
            "endpoint.region": "us-east-1",
            "access.key": "any",
            "secret.key": "any",
            "path.style.access": "true",
        }
        return {f"spark.hadoop.fs.s3a.{name}": value for name, value in store.items()}

    def fail(self, **plan: object) -> None:
        """Set the faults from now on (`object_store_program.Faults`); none without arguments."""
        self._asked("POST", plan)

    def counts(self) -> dict[str, int]:
        """Return the counts since the last `fail`.

        These are requests, listings (`lists`) and the `keys` in them, and each kind of fault.
        """
        found: dict[str, int] = self._asked("GET")["counts"]
        return found

    def _asked(self, method: str, plan: Mapping[str, object] | None = None) -> dict[str, Any]:
        body = None if plan is None else json.dumps(plan).encode()
        request = urllib.request.Request(f"{self.address}/_faults", data=body, method=method)  # noqa: S310  our own address
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
            found: dict[str, Any] = json.load(answer)
        return found
