"""The worker's converters against those of Kafka Connect, Debezium and Confluent themselves, on the same values.

python tests/compat/compare_converters.py [PATTERN]

Both sides get the same settings and the same keys, values and headers; the bytes are compared, and the schemas that are registered for them. A pattern chooses cases
by their names.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
from converter_cases import ACCEPTED, CASES, PARTS, Case, Part
from dblog.codecs.schema import Kind, Schema
from dblog.errors import ConfigError, DefiniteError
from dblog.kafka.converters import JsonConverter, converter_of
from dblog.kafka.registry import RegistryAccess, RegistryClient
from rich.console import Console
from stack.debezium import converter_jars, protobuf_jars
from stack.maven import jars, java

HERE = Path(__file__).parent
FOLDER = Path(__file__).parents[2] / "build" / "compat"
GIVEN = JsonConverter({"replace.null.with.default": "false"}, option_prefix="")
GIVEN_PLAIN = JsonConverter({"schemas.enable": "false"}, option_prefix="")
SHOWN = 110
"""Characters that are shown of the texts from where they differ."""


class Registry:
    """A registry with Confluent's interface, in memory: ids from 1 on, one for each text."""

    def __init__(self) -> None:
        self.subjects: dict[str, list[dict[str, Any]]] = {}
        self._ids: dict[str, int] = {}

    def client(self, access: RegistryAccess) -> RegistryClient:
        """Return a client of this registry."""
        return RegistryClient(access, transport=httpx.MockTransport(self._answer))

    def _answer(self, request: httpx.Request) -> httpx.Response:
        _, kind, subject, *_ = httpx.URL(str(request.url)).path.split("/")
        body = json.loads(request.content)
        if kind != "subjects":
            raise AssertionError(f"an unexpected request: {request.url}")
        versions = self.subjects.setdefault(subject, [])
        whole = json.dumps([body["schema"], body.get("references", [])])
        number = self._ids.setdefault(whole, len(self._ids) + 1)
        if all(one["id"] != number for one in versions):
            references = [f"{one['name']} {one['subject']} {one['version']}" for one in body.get("references", [])]
            versions.append({"id": number, "type": body.get("schemaType", "AVRO"), "schema": body["schema"], "references": references})
        version = [one["id"] for one in versions].index(number) + 1
        return httpx.Response(200, json={"id": number, "version": version, "subject": subject})


def ours(case: Case, parts: list[Part]) -> dict[str, Any]:
    """Return the worker's bytes, or errors by their text, and the schemas that it registered."""
    registry = Registry()
    option = f"{case.use}.converter"
    config = {option: case.class_name, f"{option}.schema.registry.url": "http://registry:8081"}
    config |= {f"{option}.avro.schema.registry.url": "http://registry:8081"} if "CloudEvents" in case.class_name else {}
    config |= {f"{option}.{name}": value for name, value in case.settings.items()}
    try:
        made = converter_of({}, config, is_key=case.use == "key", own_registry=None, client=registry.client)
    except ConfigError as e:
        return {"written": [f"refused: {e}"], "registered": {}}
    written: list[Any] = []
    for part in parts:
        try:
            written.append(made.serialize(part.topic, part.schema, _with_defaults(part, case)))
        except (DefiniteError, OverflowError, ValueError) as e:
            written.append(f"error: {type(e).__name__}: {e}")
    return {"written": written, "registered": registry.subjects}


def _with_defaults(part: Part, case: Case) -> Any:
    """Return the part's value, with defaults in place of nulls for Avro: the peer writes them so,
    while the worker keeps the nulls of a column.
    """
    if part.value is None or part.schema is None or not (case.class_name.endswith("AvroConverter") or "avro" in case.settings.values()):
        return part.value
    return _filled(part.schema, part.value)


def _filled(schema: Schema, value: Any) -> Any:
    match schema.kind:
        case _ if value is None:
            return schema.default
        case Kind.STRUCT:
            return {field.name: _filled(field.schema, value.get(field.name)) for field in schema.fields}
        case _:
            return value


def theirs(cases: list[Case], parts: list[Part]) -> list[dict[str, Any]]:
    """Return the peer's results by case."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    asked, answered = FOLDER / "converters.jsonl", FOLDER / "converted.jsonl"
    shown = [_given(part) for part in parts]
    asked.write_text(
        "".join(
            json.dumps({"class": case.class_name, "settings": case.settings, "use": case.use, "records": shown}) + "\n" for case in cases
        )
    )
    folders = (jars("connect"), jars("debezium-postgres"), jars("debezium-mysql"), converter_jars(), protobuf_jars())
    path = ":".join(f"{folder}/*" for folder in folders)
    subprocess.run([java(), "-cp", path, HERE / "ApplyConverters.java", asked, answered], check=True, timeout=600)
    results: list[dict[str, Any]] = [json.loads(line) for line in answered.read_text().strip().split("\n")]
    for result in results:
        result["written"] = [
            one if one is None or one.startswith(("error: ", "refused: ")) else b64decode(one) for one in result["written"]
        ]
    return results


def _given(part: Part) -> dict[str, Any]:
    writer, name = (GIVEN_PLAIN, "plain") if part.plain else (GIVEN, "data")
    data = writer.serialize("", part.schema, part.value)
    return {"topic": part.topic, name: None if data is None else data.decode()}


def _paired(mine: list[Any], peer: list[Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield what each side made of each part. Settings that are refused here at the start may fail
    there at each value that is not null.
    """
    for at, name in enumerate(PARTS):
        left, right = mine[at] if len(mine) > 1 else mine[0], peer[at] if len(peer) > 1 else peer[0]
        yield name, None if right is None and len(mine) == 1 else left, right


def difference(mine: Any, peer: Any) -> str | None:
    """Return what differs between two results of one part; None if nothing does."""
    if mine == peer or (isinstance(mine, str) and isinstance(peer, str)):
        return None  # where both fail, the words are each one's own
    left, right = _text(mine), _text(peer)
    at = max(0, next((at for at, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), 0) - 30)
    return f"ours ...{left[at : at + SHOWN]}\n      peer ...{right[at : at + SHOWN]}"


def _text(result: Any) -> str:
    return repr(result) if isinstance(result, bytes | None) else str(result)


def main() -> int:
    """Compare, print what differs, and return 1 if something does that is not accepted."""
    console = Console(highlight=False, width=200, soft_wrap=True)
    wanted = re.compile(sys.argv[1] if len(sys.argv) > 1 else "")
    cases = [case for case in CASES if wanted.search(str(case))]
    parts = list(PARTS.values())
    found = compared = 0
    for case, peer in zip(cases, theirs(cases, parts), strict=True):
        mine = ours(case, parts)
        pairs = list(_paired(mine["written"], peer["written"]))
        subjects = sorted({*mine["registered"], *peer.get("registered", {})})
        pairs += [(f"subject {name}", mine["registered"].get(name), peer.get("registered", {}).get(name)) for name in subjects]
        for name, left, right in pairs:
            compared += 1
            text = difference(left, right)
            if text is not None and not any(re.search(pattern, f"{case}, {name}") for pattern in ACCEPTED):
                found += 1
                console.print(f"{case}, {name}: {text}", markup=False)
    console.print(f"{len(cases)} converters, {compared:,} results compared, {found} differences", markup=False)
    return min(1, found)


if __name__ == "__main__":
    sys.exit(main())
