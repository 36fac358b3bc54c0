"""Writes connect-worker/docs/converters.md: the prose below, and the tables of what the worker declares; run as a program, it puts the page in place."""

from collections.abc import Iterator
from pathlib import Path

from dblog.config.framework import REFUSED_CONVERTERS
from dblog.config.options import Option
from dblog.config.plugins import CONVERTERS

PAGE = Path(__file__).parents[2] / "connect-worker" / "docs" / "converters.md"

HEAD = """\
# Converters

Which converters write keys and values, with which options, and what reads them:

    "key.converter": "org.apache.kafka.connect.converters.LongConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false"

- A connector that names no converter takes the worker's class with the worker's settings. One that
  names a class gets only its own settings below `key.converter.` or `value.converter.`, as in Connect.
- A class is named in full or by its simple name. `ByteArrayConverter` alone is Kafka's.
- A class that is not here, and a value that an option does not have, is an error at its key, in the
  answer of validate and as status 400 when the connector is created.
- Avro rows are written by compiled code. With any other converter on either side each row becomes
  values first, which takes some ten times as much CPU.

`make compare-converters` compares the bytes with those of the Java classes
([how](../../tests/compat/README.md#converters)). The tables of this page are made by
`tests/docs/converters_page.py`.

## Who reads what

| value converter | the sink | dumps of some columns (`columns`) |
|---|---|---|
| Avro | yes | yes, but for `connect.meta.data=false` and RecordNameStrategy |
| JSON with schemas | yes, with `decimal.format=BASE64` | yes |
| JSON without schemas, String, ByteArray, numbers, Boolean, BinaryData with such a delegate, CloudEvents | no: nothing in a record says what its columns are | no, with the reason |

The sink puts records that it cannot read in quarantine, and names converter and remedy as the reason.
`topics.exclude` leaves such topics out.

## CloudEvents

    "value.converter": "io.debezium.converters.CloudEventsConverter",
    "value.converter.serializer.type": "json",
    "value.converter.data.serializer.type": "avro",
    "value.converter.avro.schema.registry.url": "http://registry:8081"

Each change of a row becomes one event, as at Debezium; heartbeats, schema changes and transactions
become null, for it has no events of them, and there are no chunk markers. Settings of the JSON and Avro converters inside
stand below `value.converter.json.` and `value.converter.avro.`. It writes values, not keys.

## A record that a converter cannot write

It ends the task. With `errors.tolerance=all` it is left out, and may have a record in [a topic for
such](transforms.md#records-that-fail).

ByteArray, Boolean and the number converters write one value and no struct: make the key or value one
value first (`ExtractField`, `Cast`), and leave out heartbeats and others with a predicate. There are no
chunk markers with them. As in Connect, a Decimal is not bytes to them, and a Date, Time or Timestamp of
Connect (`time.precision.mode=connect`) no number.
"""

DIFFERENCES = """\
## Differences

| where | here | in Connect |
|---|---|---|
| a null of a column with a default, in Avro | stays null | the default, which a reader cannot tell from the value |
| bytes in the text of StringConverter | base64 | the address of a Java object, such as `[B@55120f99` |
| digits of a float or double in a text | the fewest that read back as the same number, as Java since version 19 | with older Java sometimes one more |
| CloudEvents with parts from headers (`metadata.source`), with `traceparent` | refused with the reason | taken from the record's headers |
| CloudEvents of rows that PostgreSQL's log does not have (dumps): `lsn` and `txId` in `id` | null | the converter fails |
| a value without schema in Avro | an error of the record | an Avro schema of any type |
"""


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *_tables(), DIFFERENCES, *_refused()])


def _refused() -> Iterator[str]:
    yield "## Not here\n"
    yield "| class | why, and what helps |\n|---|---|"
    for name, why in REFUSED_CONVERTERS.items():
        yield f"| `{name}` | {why} |"
    yield ""


def _tables() -> Iterator[str]:
    yield "## Classes\n"
    yield "| class | options |\n|---|---|"
    for plugin in CONVERTERS:
        simple = plugin.class_name.rpartition(".")[2]
        yield f"| `{plugin.class_name}` | {_link(plugin.class_name, simple) if plugin.options else ''} |"
    yield ""
    written: set[tuple[Option, ...]] = set()
    for plugin in CONVERTERS:
        if plugin.options and plugin.options not in written:
            written.add(plugin.options)
            yield from _options(plugin.class_name.rpartition(".")[2], plugin.options)


def _link(class_name: str, simple: str) -> str:
    first = "BinaryDataConverter" if class_name.startswith("io.debezium.converters.ByteArray") else simple
    return f"[{first}](#{first.lower()})"


def _options(simple: str, options: tuple[Option, ...]) -> Iterator[str]:
    yield f"### {simple}\n"
    yield "| option | default | meaning |\n|---|---|---|"
    for one in options:
        default = f"`{one.default}`" if one.default else ""
        choices = f" One of `{'`, `'.join(one.choices)}`." if one.choices else ""
        ineffective = "" if one.no_effect is None else f" No effect here: {one.no_effect}."
        yield f"| `{one.name}` | {default} | {one.doc}{choices}{ineffective} |"
    yield ""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
