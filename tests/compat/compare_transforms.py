"""The worker's transforms against those of Kafka Connect and Debezium themselves, on the same records.

python tests/compat/compare_transforms.py [PATTERN]

Both sides get the same configurations and records; the results are compared byte for byte as JSON with schemas, with topic, partition, headers, timestamp, and the
schemas' texts in Avro. A pattern chooses cases by their names.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from dblog.codecs.avro import avro_text
from dblog.codecs.header_text import header_text
from dblog.codecs.schema import Schema
from dblog.errors import ConfigError, DefiniteError
from dblog.kafka.converters import JsonConverter
from dblog.transforms.configuration import chain_of
from dblog.transforms.faults import RecordError
from dblog.transforms.record import Header, Record
from rich.console import Console
from stack.debezium import converter_jars
from stack.maven import jars, java
from transform_cases import ACCEPTED, CASES, RECORDS

HERE = Path(__file__).parent
FOLDER = Path(__file__).parents[2] / "build" / "compat"
BEFORE, AFTER = 60, 80
"""Characters that are shown of two texts around where they differ."""
GIVEN = JsonConverter({"replace.null.with.default": "false"}, option_prefix="")
WRITTEN = JsonConverter({}, option_prefix="")


def given(record: Record) -> dict[str, Any]:
    """Return a record as the peer reads it."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "timestamp": record.timestamp,
        "key": _text(GIVEN.serialize("", record.key_schema, record.key)),
        "value": _text(GIVEN.serialize("", record.value_schema, record.value)),
        "headers": [[header.name, header.value] for header in record.headers],
    }


def ours(config: dict[str, str], records: list[Record]) -> list[Any]:
    """Return the worker's results: as the peer's, and an error by its text."""
    try:
        chain = chain_of(config)
    except ConfigError as e:
        return [f"refused: {e}"]
    assert chain is not None
    return [_result(chain, record) for record in records]


def _result(chain: Any, record: Record) -> Any:
    try:
        made = chain.apply(record)
        if made is None:
            return None
        return {
            "topic": made.topic,
            "partition": made.partition,
            "timestamp": made.timestamp,
            "key": _text(WRITTEN.serialize(made.topic, made.key_schema, made.key)),
            "value": _text(WRITTEN.serialize(made.topic, made.value_schema, made.value)),
            "key in Avro": _avro_text(made.key_schema),
            "value in Avro": _avro_text(made.value_schema),
            "headers": [_written(header) for header in made.headers],
        }
    except (RecordError, DefiniteError) as e:
        return f"{type(e).__name__}: {e}"


def _written(header: Header) -> list[str | None]:
    return [header.name, None if header.value is None else header_text(header.schema, header.value)]


def _avro_text(schema: Schema | None) -> str | None:
    try:
        return None if schema is None else avro_text(schema)
    except DefiniteError:
        return "no Avro schema"


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()


def theirs(cases: dict[str, dict[str, str]], records: list[Record]) -> dict[str, list[Any]]:
    """Return the peer's results by case."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    asked, answered = FOLDER / "transforms.jsonl", FOLDER / "transformed.jsonl"
    shown = [given(record) for record in records]
    asked.write_text("".join(json.dumps({"config": config, "records": shown}) + "\n" for config in cases.values()))
    path = ":".join(f"{folder}/*" for folder in (jars("connect"), jars("debezium-postgres"), converter_jars()))
    subprocess.run([java(), "-cp", path, HERE / "ApplyTransforms.java", asked, answered], check=True, timeout=600)
    return dict(zip(cases, map(json.loads, answered.read_text().splitlines()), strict=True))


def differences(mine: Any, peer: Any) -> list[str]:
    """Return what differs between two results of one record."""
    if isinstance(mine, str) and isinstance(peer, str):
        return []  # both fail; the words are each one's own
    if not isinstance(mine, dict) or not isinstance(peer, dict):
        return [] if mine == peer else [f"ours {_shown(mine)}, peer {_shown(peer)}"]
    return [f"{name}: {_nearby(mine[name], peer[name])}" for name in peer if mine[name] != peer[name]]


def _shown(result: Any) -> str:
    return "a record" if isinstance(result, dict) else str(result)


def _nearby(mine: Any, peer: Any) -> str:
    """Return the texts from a little before where they differ."""
    left, right = str(mine), str(peer)
    at = next((at for at, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
    start = max(0, at - BEFORE)
    return f"ours ...{left[start : at + AFTER]}\n      peer ...{right[start : at + AFTER]}"


def main() -> int:
    """Compare, print what differs, and return 1 if something does that is not accepted."""
    console = Console(highlight=False, width=200, soft_wrap=True)
    wanted = re.compile(sys.argv[1] if len(sys.argv) > 1 else "")
    cases = {name: config for name, config in CASES.items() if wanted.search(name)}
    records = list(RECORDS.values())
    peer = theirs(cases, records)
    found = compared = 0
    for name, config in cases.items():
        mine = ours(config, records)
        pairs = (
            list(zip(RECORDS, mine, peer[name], strict=False))
            if len(mine) == len(peer[name])
            else [("configuration", mine[0], peer[name][0])]
        )
        for record, left, right in pairs:
            compared += 1
            for text in differences(left, right):
                if any(re.search(case, f"{name} {record}") for case in ACCEPTED):
                    continue
                found += 1
                console.print(f"{name}, {record}: {text}", markup=False)
    console.print(f"{len(cases)} configurations, {compared:,} results compared, {found} differences", markup=False)
    return min(1, found)


if __name__ == "__main__":
    sys.exit(main())
