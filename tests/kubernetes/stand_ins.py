"""Images in the place of those that the chart takes from registries, where none can be reached: the same programs at the same paths, from packages.

Kafka's jars are the stack's, on the sink's image, which has a Java; MariaDB is Debian's, on the base of the images.
"""

import os
import shutil
import tempfile
from pathlib import Path

import yaml
from images.build import FOLDER, base_image
from images.engine import Engine, engine
from images.settings import build_secrets
from stack.environment import ROOT
from stack.maven import jars

_KAFKA = """\
FROM {sink}
COPY libs /opt/kafka/libs
"""
_MARIADB = """\
FROM {base}
RUN --mount=type=bind,source=inside,target=/run/inside --mount=type=secret,id=ca --mount=type=secret,id=apt \\
    /run/inside/packages.sh mariadb-server-core mariadb-client-core
"""


def stand_in_archives(folder: Path, *, sink: str) -> dict[str, Path]:
    """Archives of the broker's image and of the demo's database, by the names that the chart has for them. `sink` is the tag of the sink's image."""
    building = engine(os.environ.get("ENGINE"))
    found = {}
    for part, (name, tag) in built_stand_ins(building, sink=sink).items():
        found[name] = folder / f"stand-in-{part}.tar"
        building.save(tag, found[name])
    return found


def built_stand_ins(building: Engine, *, sink: str) -> dict[str, tuple[str, str]]:
    """Build both. Return the name that the chart has for each, and its tag here, by the part of the values that names it."""
    values = yaml.safe_load((ROOT / "helm" / "values.yaml").read_text())
    found = {}
    with tempfile.TemporaryDirectory() as made:
        context = Path(made)
        shutil.copytree(jars("kafka"), context / "libs")
        shutil.copytree(FOLDER / "inside", context / "inside")
        (context / "broker").write_text(_KAFKA.format(sink=sink))
        (context / "demo").write_text(_MARIADB.format(base=base_image(building)))
        for part in ("broker", "demo"):
            tag = f"localhost/dblog-stand-in-{part}:1"
            building.build(file=context / part, context=context, tag=tag, arguments={}, labels={}, secrets=build_secrets(context), epoch=0)
            image = values[part]["image"]
            found[part] = f"{image['registry']}/{image['repository']}@{image['digest']}", tag
    return found
