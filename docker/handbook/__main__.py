"""Builds or serves the documentation: `python -m handbook build|serve|openapi`."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from handbook.check import problems
from handbook.gather import MAP, ROOT, gather
from handbook.rest import document

SOURCE = ROOT / "build" / "docs-source"
SITE = ROOT / "build" / "docs"
ADDRESS = "127.0.0.1:8000"


def main(arguments: list[str]) -> int:
    """Run one command. Return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m handbook", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build", help=f"make the site in {SITE.relative_to(ROOT)}")
    serving = commands.add_parser("serve", help="make the site and serve it on this machine alone")
    serving.add_argument("--address", default=ADDRESS, help=f"host:port, default {ADDRESS}")
    commands.add_parser("openapi", help="print the OpenAPI document of the worker's REST interface")
    given = parser.parse_args(arguments)
    if given.command == "openapi":
        print(json.dumps(document(), indent=1))
        return 0
    status = build()
    if status == 0 and given.command == "build":
        print(f"the documentation is in {SITE.relative_to(ROOT)}/index.html; make docs-serve serves it")
    if status or given.command == "build":
        return status
    host, _, port = given.address.rpartition(":")
    print(f"the documentation is at http://{given.address}/ until Ctrl-C", flush=True)
    try:
        return subprocess.run(
            [sys.executable, "-m", "http.server", "--bind", host, "--directory", str(SITE), port], stderr=subprocess.DEVNULL, check=False
        ).returncode
    except KeyboardInterrupt:
        return 0


def build(site: Path = SITE) -> int:
    """Build the site and check it. Return the exit status."""
    gather(SOURCE)
    # The theme's makers advertise the successor of mkdocs at each build.
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT / "docker")}
    line = [sys.executable, "-m", "mkdocs", "--quiet", "build", "--strict", "--clean", "--config-file", str(MAP), "--site-dir", str(site)]
    status = subprocess.run(line, env=env, cwd=ROOT, check=False).returncode
    if status:
        return status
    # The theme reads this file where a page is opened from the disk, which no script may fetch JSON from.
    index = site / "search" / "search_index.json"
    index.with_suffix(".js").write_text(f"var __index = {index.read_text(encoding='utf-8')}", encoding="utf-8")
    found = problems(site)
    print(*found, sep="\n", file=sys.stderr, end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
