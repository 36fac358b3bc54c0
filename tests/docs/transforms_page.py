"""Writes connect-worker/docs/transforms.md: the prose below, and the tables of what the worker declares; run as a program, it puts the page in place."""

from collections.abc import Iterator
from pathlib import Path

from dblog.config.options import Option
from dblog.transforms.catalog import PREDICATE_PLUGINS, REFUSED, TRANSFORM_PLUGINS

PAGE = Path(__file__).parents[2] / "connect-worker" / "docs" / "transforms.md"
PACKAGES = {"org.apache.kafka.connect.transforms": "Kafka Connect", "io.debezium": "Debezium"}

HEAD = """\
# Transforms and predicates

Which single message transforms the worker runs, how each record passes them, what they cost, and
what differs from Kafka Connect:

    "transforms": "unwrap,route",
    "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
    "transforms.unwrap.add.fields": "op,source.ts_ms",
    "transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
    "transforms.route.regex": "shop\\\\.(.*)",
    "transforms.route.replacement": "lake.$1"

A class is named in full, or by its simple name (`RegexRouter`, `ReplaceField$Value`); `Filter` alone
names two classes. A class of Connect or Debezium that is not here is refused by name. `GET
/connector-plugins?connectorsOnly=false` lists all that are.

A wrong class, option or predicate is an error at its key, in the answer of `PUT
/connector-plugins/<connector>/config/validate` and as status 400 when the connector is created. The
tables of this page are made by `tests/docs/transforms_page.py`.

## The way of a record

        row encoder ─► record ─► transform ─► transform ─► converter ─► queue ─► Kafka
                       Avro      predicate?   None: dropped
                       bytes     then it passes by

- Every record passes the chain, as in Connect: rows of the log and of dumps, tombstones, heartbeats,
  schema changes, transaction metadata, notifications, logical messages. A predicate such as
  `TopicNameMatches` leaves out what a transform cannot handle. Chunk markers do not pass it.
- The compiled encoders write each row as Avro, as without transforms. A transform that asks for key
  or value has it read from these bytes; what no transform touches keeps them.
- A chain that only renames topics by their names costs nothing per record: the encoders are built
  with the new name.
- ExtractNewRecordState cuts the row out of the bytes, and adds its fields after it. Only with
  `route.by.field`, `drop.fields.header.name`, or defaults to put in place of null, is the row read.
- What chains cost is measured by `make bench-transforms` ([figures](../../tests/bench/README.md)): a
  record some 10 µs of CPU where it is unwrapped, some 100 where its whole envelope is read and
  written. So let ExtractNewRecordState come first.
- A dropped record counts as done: the position after it is stored. Metrics count it
  (`dblog_task_events_filtered_total`, reason `transform`).
- A record that a transform or converter cannot handle ends the task, or is left out
  ([below](#records-that-fail)).
- What is made of JSON (`EventRouter` with `table.expand.json.payload`,
  `DecodeLogicalDecodingMessageContent`) has at most 10,000 different fields in one record, and the
  schemas in memory have at most 100,000: the oldest are made again when they return.

## Records that fail

    "errors.tolerance": "all",
    "errors.deadletterqueue.topic.name": "shop.failed"

With `errors.tolerance=all` a record that a transform or converter cannot handle is logged without its
values, counted (`dblog_task_events_skipped_total`, reason `untransformed`), and left out. A schema that
the registry refuses ends the task all the same, and a record that is too large for Kafka is logged and
counted only ([sizes](../README.md#limits)).

Kafka Connect has a dead-letter topic for sinks; here connectors have one too. Each record in it is JSON:

    {"connector":"shop","task":0,"topic":"shop.sales.orders","table":"sales.orders",
     "stage":"TRANSFORMATION","class":"org.apache.kafka.connect.transforms.Cast$Value",
     "reason":"transform cast (...): ...","key_sha256":"9f86d0...","op":"u",
     "position":{"file":"binlog.000007","pos":4711,"ts_ms":1764460800000}}

- The record's key is `key_sha256`, the digest of the failed record's key in Avro: failures of one row
  are in one partition, and no column is in the record.
- `dblog.errors.deadletterqueue.records=true` adds `key` and `value`: the failed record with all its
  columns, as JSON with schemas. Whoever may read the topic may then read the tables.
- `errors.deadletterqueue.context.headers.enable=true` adds Connect's headers
  (`__connect.errors.stage`, `__connect.errors.exception.message` and others).
- The topic is created like those of tables (`topic.creation.*`). No table's rows may come into it.
- To send what failed again, mend the transforms or the converter, then have the table dumped again:
  `dblog dumps start NAME TABLE`.

## Dumps and the sink

| the chain | chunk markers | `verify`, `repair` | `columns` |
|---|---|---|---|
| only renames topics by their names | as without transforms | yes | yes |
| changes headers or partitions | with `rows_passed` | yes | no |
| drops records, too | with `rows_passed` | no | no |
| changes keys or values, or routes by them | none | no | no |

The sink reads envelopes in renamed topics, and rows that `ExtractNewRecordState` has unwrapped (set
`table.<rule>.records=unwrapped` if nothing in the row shows it). Records of another shape are none
that it can read: their table is parked with the reason, or exclude the topic with `topics.exclude`.
Without markers the sink cannot count what arrives, and without `source.sequence` (add
`add.fields=source.sequence`) it takes the order of a topic's records for that of the source.
"""

DIFFERENCES = """\
## Differences

| where | here | in Connect |
|---|---|---|
| an option that a transform's `configure` refuses | an error of its key, status 400 | the task fails |
| a key that no class has | a warning with the nearest name. `drop.tombstones` and `delete.handling.mode` of Debezium 2 are such keys: Debezium 3 has `delete.tombstone.handling.mode` | ignored |
| patterns | matched in time linear in the text; back references and most lookarounds are refused by name | backtracking |
| patterns of dates | the letters y M d D H h K k m s S a E z Z X, in English and UTC; others are refused by name | all of SimpleDateFormat |
| days before 1582-10-15 in texts | the Gregorian calendar | the Julian calendar |
| `Filter` and `ContentBasedRouter` of Debezium | no script runs: one expression of a small language, with Groovy's comparison for JavaScript too. Fields by `.`, `?.`, `[]` and `get()`, `== != < <= > >= && \\|\\| ! ?: + - in ==~`, and methods such as `startsWith`, `contains`, `matches`; others are refused by name | any script |
| `MaskField` of a Decimal | zero with the field's scale | zero with scale 0, which converters refuse |
| the timestamp that `EventRouter` sets | `TimestampRouter` and `InsertField` see it; the record in Kafka has the time of sending | is the record's in Kafka |
| `InsertHeader` | a list or a map as `value.literal` is refused | parsed and written again |
| `__debezium.newkey` and `oldkey` headers | texts to a transform | structs |
| a payload of JSON that `EventRouter` expands | an array at the top stays text | an error, which is logged, and text |
| `DecodeLogicalDecodingMessageContent` of a record without a value's schema | passes | fails |
| `VectorToJsonConverter` of a struct that may be null | it may be null afterwards too | it becomes required, and a null fails |
| a record without schema in Avro | an error of the record | an Avro schema of any type |
"""


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *_tables(), DIFFERENCES, *_refused()])


def _tables() -> Iterator[str]:
    yield "## Predicates\n"
    yield "| class | what it does |\n|---|---|"
    for plugin in PREDICATE_PLUGINS:
        yield f"| `{plugin.class_name}` | {plugin.doc} |"
    yield ""
    for plugin in PREDICATE_PLUGINS:
        yield from _options(plugin.class_name, plugin.options)
    yield "`transforms.<alias>.predicate` names one, and `transforms.<alias>.negate=true` turns it.\n"
    for package, name in PACKAGES.items():
        chosen = [transform for transform in TRANSFORM_PLUGINS if transform.class_name.startswith(package)]
        yield f"## Transforms of {name}\n"
        yield "| class | what it does |\n|---|---|"
        for transform in chosen:
            variants = f" (`${'`, `$'.join(part.value for part in transform.parts)}`)" if transform.parts else ""
            yield f"| `{transform.class_name}`{variants} | {transform.doc} |"
        yield ""
        for transform in chosen:
            yield from _options(transform.class_name, transform.options)


def _options(class_name: str, options: tuple[Option, ...]) -> Iterator[str]:
    if not options:
        return
    simple = class_name.rpartition(".")[2]
    same = sum(plugin.class_name.endswith(f".{simple}") for plugin in TRANSFORM_PLUGINS) > 1
    yield f"### {simple}{' of Debezium' if same else ''}\n"
    yield "| option | default | meaning |\n|---|---|---|"
    for one in options:
        default = "required" if one.required else f"`{one.default}`" if one.default else ""
        choices = f" One of `{'`, `'.join(one.choices)}`." if one.choices else ""
        ineffective = "" if one.no_effect is None else f" No effect here: {one.no_effect}."
        yield f"| `{one.name}` | {default} | {_cell(one.doc)}{choices}{ineffective} |"
    yield ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _refused() -> Iterator[str]:
    yield "## Not here\n"
    yield "| class | why |\n|---|---|"
    for name, why in REFUSED.items():
        yield f"| `{name}` | {why} |"
    yield ""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
