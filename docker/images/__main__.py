"""Runs one command of the images: `python -m images build|base|lock|install|save`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from stack.errors import StackError

from images.build import IMAGES, OUT, build, make_base
from images.engine import ENGINES, RUNNING, engine, install
from images.lock import lock


def main(arguments: list[str]) -> int:
    """Run one command. Return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m images", description=sys.modules["images"].__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    building = commands.add_parser("build")
    building.add_argument("images", nargs="*", choices=[[], *(image.name for image in IMAGES)], default=[])
    building.add_argument("--fresh", action="store_true", help="use nothing of earlier builds")
    building.add_argument("--no-layers", action="store_true", help="keep nothing for the next build (Podman, Buildah)")
    commands.add_parser("base").add_argument("tag")
    commands.add_parser("lock")
    installing = commands.add_parser("install")
    installing.add_argument("--to-run", action="store_true", help="one that also runs containers")
    commands.add_parser("save").add_argument("folder", nargs="?", type=Path, default=OUT)
    given = parser.parse_args(arguments)
    try:
        match given.command:
            case "build":
                build(given.images, fresh=given.fresh, layers=not given.no_layers)
            case "base":
                make_base(engine(os.environ.get("ENGINE")), given.tag)
            case "lock":
                lock()
            case "install":
                install(kinds=RUNNING if given.to_run else ENGINES)
            case _:
                for image in IMAGES:
                    engine(os.environ.get("ENGINE")).save(image.tag, given.folder / f"{image.name}.tar")
    except KeyboardInterrupt:
        return 130
    except StackError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
