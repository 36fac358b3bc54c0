"""How fast PostgreSQL's rows become records, without network and Kafka: rows per CPU-second of the compiled path, and of the slow one beside it.

One table, as in tables.py: ten columns, about 150 bytes a row in the log, 290 in Avro. Questions: one bulk transaction, single-row transactions, updates with
both images, lines of COPY. Run: ``build/venv/bin/python tests/bench/pgrowpath.py [rows]``. Prints the minimum and the median of five runs.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "connect-worker/src")]

from bench.rowpath import CHUNK_ROWS, FEED_BYTES, RUNS, measure  # noqa: E402 - the path comes first
from dblog.codecs import tableplan, topic_naming  # noqa: E402
from dblog.codecs.plan import TablePlan  # noqa: E402
from dblog.codecs.rowplan import ReferencePlan, RowEncoder  # noqa: E402
from dblog.dialects.postgres.pgoutput._fast import FastLogged, FastPlan, LogDecoder  # noqa: E402
from dblog.dialects.postgres.pgoutput.items import LogOffset  # noqa: E402
from dblog.dialects.postgres.pgoutput.row_image import PostgresImage  # noqa: E402
from dblog.dialects.postgres.pgoutput.source_block import CONNECTOR, PostgresContext, source_schema  # noqa: E402
from dblog.dialects.postgres.pgoutput.visibility import Snapshot  # noqa: E402
from dblog.dialects.postgres.values.modes import TypeModes  # noqa: E402
from dblog.dialects.postgres.values.types import column_plan  # noqa: E402
from dblog.model import Column, Table, TableId  # noqa: E402
from dblog.readers.items import LogRows  # noqa: E402
from reference_decoders.postgres.decoder_reference import ReferenceLogDecoder  # noqa: E402
from support.pgoutput_log import Stream, copy_message  # noqa: E402
from support.pgoutput_tables import Row, float_text, line_of  # noqa: E402

NUMBER = 16_385
CONTEXT = PostgresContext(
    database="shop", source_ts_us=1_700_000_000_000_000, now_us=1_700_000_000_000_000, sequence_high=1, sequence_low=5 << 34, snapshot="incremental"
)  # fmt: skip


def plan() -> TablePlan:
    def column(name: str, type_: str, *, nullable: bool = False, **more: int) -> Column:
        return Column(name=name, type=type_, type_text=type_, nullable=nullable, **more)  # type: ignore[arg-type]

    table = Table(
        id=TableId("shop", "bench"),
        columns=(
            column("id", "int8"),
            column("amount", "int4"),
            column("name", "varchar", length=60),
            column("price", "numeric", length=12, scale=2),
            column("kind", "int2"),
            column("flag", "bool"),
            column("made", "timestamp", length=6),
            column("seen", "timestamptz", length=3),
            column("note", "varchar", nullable=True, length=200),
            column("weight", "float8"),
        ),
        key=("id",),
    )
    return tableplan.build_table_plan(
        table,
        [column_plan(c, TypeModes(), table.id) for c in table.columns],
        settings=tableplan.PlanSettings(
            connector=CONNECTOR, source=source_schema(), version="3.6.1.Final", naming=topic_naming.TopicNaming(prefix="p")
        ),
        key_columns=("id",),
        key_prefix=lambda _topic, _schema: b"\0\0\0\0\1",
        value_prefix=lambda _topic, _schema: b"\0\0\0\0\2",
    )


def row(i: int) -> Row:
    clock = f"{i // 3600 % 24:02d}:{i // 60 % 60:02d}:{i % 60:02d}"
    texts = [
        f"{i}", f"{i * 7919 % 2_000_000_000}", f"name-{i}", f"{i % 1_000_000 // 100}.{i % 100:02d}", f"{i % 30_000}", "ft"[i & 1],
        f"2024-01-{i // 86_400 % 28 + 1:02d} {clock}.{i % 999_999 + 1:06d}", f"2024-01-{i // 86_400 % 28 + 1:02d} {clock}.{i % 999 + 1:03d}+00",
        f"{i}".ljust(30, "x"), float_text(i / 7),
    ]  # fmt: skip
    return [text.encode() for text in texts]


def bulk(rows: int) -> bytes:
    stream = table(Stream().begin())
    for i in range(rows):
        stream.insert(NUMBER, row(i))
    return stream.commit().bytes()


def single(rows: int) -> bytes:
    stream = Stream()
    for i in range(rows):
        stream.begin(xid=700 + i)
        (stream if i else table(stream)).insert(NUMBER, row(i)).commit()
    return stream.bytes()


def updates(rows: int) -> bytes:
    stream = table(Stream().begin())
    for i in range(rows):
        stream.update(NUMBER, row(i), [*row(i)[:-1], b"0"])
    return stream.commit().bytes()


def table(stream: Stream) -> Stream:
    return stream.relation(NUMBER, "bench", [column.name for column in plan().columns])


def through_decoder(made: type[LogDecoder | ReferenceLogDecoder], encoder: RowEncoder, data: bytes) -> Callable[[], int]:
    """As a task does it, which notes for its chunks what each transaction has changed."""
    parts, start, at = [], 0, 0
    while at < len(data):
        at += len(copy_message(b"")) + int.from_bytes(data[at : at + 4], "little")
        if at - start >= FEED_BYTES or at == len(data):
            parts.append(data[start:at])
            start = at

    def run() -> int:
        logged = FastLogged(Snapshot(700, 700, frozenset())) if made is LogDecoder else lambda *_: None
        decoder = made(resolve=lambda *_: encoder, committed=logged, database="shop")
        decoder.start(LogOffset(lsn=7), epoch=1, now_us=lambda: 1)
        records = 0
        for part in parts:
            items = decoder.feed(part)
            while decoder.held:
                items += decoder.feed(b"")
            records += sum(item.records for item in items if isinstance(item, LogRows))
        return records + sum(item.records for item in decoder.flush() if isinstance(item, LogRows))

    return run


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    slow_rows = max(rows // 100, 1000)
    image, made = PostgresImage(TypeModes()), plan()
    fast, slow = FastPlan(made, image), ReferencePlan(made, image)
    print(f"{platform.machine()}, Python {platform.python_version()}, {rows} rows, best and median of {RUNS}")
    for label, make in (("one transaction", bulk), ("single-row transactions", single), ("updates, both images", updates)):
        data = make(rows)
        measure(f"log, {label}, compiled", rows, len(data), through_decoder(LogDecoder, fast, data))
        data = make(slow_rows)
        measure(f"log, {label}, reference implementation", slow_rows, len(data), through_decoder(ReferenceLogDecoder, slow, data))
    for label, encoder, count in (("compiled", fast, rows), ("reference implementation", slow, slow_rows)):
        chunks = [b"".join(line_of(row(i)) for i in range(at, min(at + CHUNK_ROWS, count))) for at in range(0, count, CHUNK_ROWS)]
        run = lambda encoder=encoder, chunks=chunks: sum(len(encoder.encode_chunk(chunk, CONTEXT, frozenset())[0]) for chunk in chunks)  # noqa: E731
        measure(f"chunks of {CHUNK_ROWS} lines, {label}", count, sum(map(len, chunks)), run)


if __name__ == "__main__":
    main()
