"""Runs one command of releases: `python -m release key|make|publish`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from stack.errors import StackError

from release.address import Address
from release.folder import PUBLIC_KEY, chosen_release
from release.login import find_login
from release.make import make_release
from release.publish import publish
from release.registry import Registry
from release.signing import make_key, read_key
from release.version import Version


def main(arguments: list[str]) -> int:
    """Run one command. Return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m release", description=sys.modules["release"].__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("key", help="make a key pair").add_argument("file", type=Path, help="the private key; the public one gets .pub")
    making = commands.add_parser("make", help="build and sign a release of the checked-out commit")
    making.add_argument("version", help="such as 1.4.0, or 1.4.0-rc.1")
    making.add_argument("--key", type=Path, required=True, help="private key in PEM: ECDSA over P-256")
    making.add_argument("--registry", default="", help="where it will be published, host/path: the chart takes its images from there")
    publishing = commands.add_parser("publish", help="push images and chart to a registry")
    publishing.add_argument("registry", help="host/path")
    publishing.add_argument("--version", default="", help="the release, if there are several")
    publishing.add_argument("--trust", type=Path, help="public key that the release must be signed with")
    given = parser.parse_args(arguments)
    try:
        match given.command:
            case "key":
                public = make_key(given.file)
                print(f"release: {given.file} signs releases: keep it secret, and a copy of it. {public} verifies them: publish it")
            case "make":
                version = Version.parse(given.version)
                registry = Address.parse(given.registry).name if given.registry else ""
                folder = make_release(version, read_key(given.key), registry=registry)
                print(f"release: {version.text} is in {folder}, signed; {PUBLIC_KEY} verifies it")
                print(f"release: publish it: make publish REGISTRY={registry or 'host/path'} VERSION={version.text}")
            case _:
                _publish(given.registry, given.version, given.trust)
    except KeyboardInterrupt:
        return 130
    except StackError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _publish(place: str, version: str, trust: Path | None) -> None:
    address = Address.parse(place)
    try:
        trusted = None if trust is None else trust.read_bytes()
    except OSError as error:
        raise StackError(
            f"the public key {trust} cannot be read: {error.strerror}. Name the file of the key that signs releases"
        ) from error
    folder = chosen_release(version or None)
    # Output that a file or a pipe gets is seen as it comes.
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    with Registry(address, find_login(address.host, os.environ)) as registry:
        commands = publish(folder, registry, trusted=trusted)
    print("\npublish: done. Verify it, then install it:\n")
    for command in commands:
        print(f"  {command}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
