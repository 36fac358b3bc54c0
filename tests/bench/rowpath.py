"""How fast rows become records, without network and Kafka: rows per CPU-second of the compiled path, and of the slow one beside it.

One table (ten columns, about 90 bytes a row in the log, 280 in Avro). Questions: multi-row inserts, single-row transactions, updates,
chunk rows. Run: ``build/venv/bin/python tests/bench/rowpath.py [rows]``. Prints the minimum and the median of five runs.
"""

from __future__ import annotations

import platform
import statistics
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "connect-worker/src")]

from dblog.codecs import tableplan, topic_naming  # noqa: E402
from dblog.codecs.plan import TablePlan  # noqa: E402
from dblog.codecs.rowplan import ReferencePlan, RowEncoder  # noqa: E402
from dblog.dialects.mysql.binlog import row_image as mysql_image  # noqa: E402
from dblog.dialects.mysql.binlog._fast import FastPlan, LogDecoder  # noqa: E402
from dblog.dialects.mysql.binlog.items import LogRows  # noqa: E402
from dblog.dialects.mysql.binlog.source_block import BinlogContext, source_schema  # noqa: E402
from dblog.dialects.mysql.values import types  # noqa: E402
from dblog.model import Column, Table, TableId  # noqa: E402
from reference_decoders.mysql.decoder_reference import ReferenceLogDecoder  # noqa: E402
from support.mysql_log import UPDATE, WRITE, Stream, image, lenenc, result_row  # noqa: E402 - the path comes first

RUNS = 5
FEED_BYTES = 256 * 1024
ROWS_AN_EVENT = 90
"""What fits into the server's default binlog_row_event_max_size of 8 KiB."""
CHUNK_ROWS = 5_000
TYPES = bytes([8, 3, 15, 246, 2, 1, 18, 17, 15, 5])
META = struct.pack("<H", 400) + bytes([12, 2, 6, 3]) + struct.pack("<H", 800) + bytes([8])
CONTEXT = BinlogContext(
    file="binlog.000007", pos=4, server_id=0, source_ts_us=1_700_000_000_000_000, now_us=1_700_000_000_000_000, sequence_high=7,
    sequence_low=4 << 23, snapshot="incremental",
)  # fmt: skip


def plan() -> TablePlan:
    def column(name: str, type_text: str, *, nullable: bool = True, **more: object) -> Column:
        return Column(name=name, type=type_text.split("(", maxsplit=1)[0], type_text=type_text, nullable=nullable, **more)

    table = Table(
        id=TableId("shop", "bench"),
        columns=(
            column("id", "bigint", nullable=False),
            column("customer", "int"),
            column("name", "varchar(100)", length=100, charset="utf8mb4"),
            column("price", "decimal(12,2)", length=12, scale=2),
            column("amount", "smallint"),
            column("paid", "tinyint(1)", length=1),
            column("ordered", "datetime(6)", length=6),
            column("changed", "timestamp(3)", length=3),
            column("note", "varchar(200)", length=200, charset="utf8mb4"),
            column("weight", "double"),
        ),
        key=("id",),
    )
    return tableplan.build_table_plan(
        table,
        [types.column_plan(c, types.TypeModes(), table.id) for c in table.columns],
        settings=tableplan.PlanSettings(
            connector="mysql", source=source_schema("mysql"), version="3.6.1.Final", naming=topic_naming.TopicNaming(prefix="p")
        ),
        key_columns=("id",),
        key_prefix=lambda _topic, _schema: b"\0\0\0\0\1",
        value_prefix=lambda _topic, _schema: b"\0\0\0\0\2",
    )


def log_row(i: int) -> bytes:
    name = b"customer %05d" % (i % 100_000)
    cents, whole = i % 100, i % 1_000_000
    packed = (0x8000000000 + ((2024 * 13 + 5) << 22 | 17 << 17 | i // 3600 % 24 << 12 | i // 60 % 60 << 6 | i % 60)).to_bytes(5, "big")
    return image([
        struct.pack("<q", i), struct.pack("<i", i * 7 % 1_000_000), struct.pack("<H", len(name)) + name,
        bytes([0x80]) + whole.to_bytes(4, "big") + bytes([cents]), struct.pack("<h", i % 30_000), bytes([i & 1]),
        packed + (i % 1_000_000).to_bytes(3, "big"), (1_700_000_000 + i).to_bytes(4, "big") + (i % 1000 * 10).to_bytes(2, "big"),
        struct.pack("<H", 30) + b"x" * 30, struct.pack("<d", i * 1.5),
    ])  # fmt: skip


def chunk_row(i: int) -> bytes:
    name, price = b"customer %05d" % (i % 100_000), b"%d.%02d" % (i % 1_000_000, i % 100)
    return result_row([
        struct.pack("<q", i), struct.pack("<i", i * 7 % 1_000_000), lenenc(len(name)) + name, lenenc(len(price)) + price,
        struct.pack("<h", i % 30_000), bytes([i & 1]),
        struct.pack("<BHBBBBBI", 11, 2024, 5, 17, i // 3600 % 24, i // 60 % 60, i % 60, i % 1_000_000),
        struct.pack("<BHBBBBBI", 11, 2023, 11, 14, 22, 13, i % 60, i % 1000 * 1000), lenenc(30) + b"x" * 30, struct.pack("<d", i * 1.5),
    ])  # fmt: skip


def bulk(rows: int) -> bytes:
    stream = Stream().hello()
    for start in range(0, rows, 1000):
        stream.begin(number=start + 1).table_map(5, "shop", "bench", TYPES, META)
        for at in range(start, min(start + 1000, rows), ROWS_AN_EVENT):
            stream.rows(WRITE, 5, 10, b"".join(log_row(i) for i in range(at, min(at + ROWS_AN_EVENT, start + 1000, rows))))
        stream.xid()
    return stream.bytes()


def single(rows: int, *, update: bool = False) -> bytes:
    stream = Stream().hello()
    for i in range(rows):
        stream.begin(number=i + 1).table_map(5, "shop", "bench", TYPES, META)
        stream.rows(UPDATE if update else WRITE, 5, 10, log_row(i) + (log_row(i)[:-1] + b"\0" if update else b"")).xid()
    return stream.bytes()


def through_decoder(made: type[LogDecoder | ReferenceLogDecoder], encoder: RowEncoder, data: bytes) -> Callable[[], int]:
    decoder = made(flavor="mysql", resolve=lambda _body, _position: encoder)

    def run() -> int:
        decoder.start("binlog.000007", 4, now_us=lambda: 1)
        records = 0
        for at in range(0, len(data), FEED_BYTES):
            records += sum(item.records for item in decoder.feed(data[at : at + FEED_BYTES]) if isinstance(item, LogRows))
        return records + sum(item.records for item in decoder.flush() if isinstance(item, LogRows))

    return run


def through_chunks(encoder: RowEncoder, chunks: list[bytes]) -> Callable[[], int]:
    return lambda: sum(len(encoder.encode_chunk(chunk, CONTEXT, frozenset())[0]) for chunk in chunks)


def measure(label: str, rows: int, size: int, run: Callable[[], int]) -> None:
    times = []
    for _ in range(RUNS):
        begin = time.process_time()
        assert run() == rows
        times.append(time.process_time() - begin)
    best, middle = min(times), statistics.median(times)
    print(
        f"{label:42} {rows / best / 1e6:7.2f} M rows/CPU-s at best, median {rows / middle / 1e6:6.2f}, {size / best / 1e6:6.0f} MB/s of input"
    )


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 300_000
    slow_rows = max(rows // 100, 1000)
    made = plan()
    fast, slow = FastPlan(made, mysql_image), ReferencePlan(made, mysql_image)
    print(f"{platform.machine()}, Python {platform.python_version()}, {rows} rows, best and median of {RUNS}")
    for label, make in (("multi-row inserts", bulk), ("single-row transactions", single)):
        data = make(rows)
        measure(f"log, {label}, compiled", rows, len(data), through_decoder(LogDecoder, fast, data))
        data = make(slow_rows)
        measure(f"log, {label}, reference implementation", slow_rows, len(data), through_decoder(ReferenceLogDecoder, slow, data))
    data = single(rows, update=True)
    measure("log, single-row updates, compiled", rows, len(data), through_decoder(LogDecoder, fast, data))
    for label, encoder, count in (("compiled", fast, rows), ("reference implementation", slow, slow_rows)):
        chunks = [b"".join(chunk_row(i) for i in range(at, min(at + CHUNK_ROWS, count))) for at in range(0, count, CHUNK_ROWS)]
        measure(f"chunks of {CHUNK_ROWS} rows, {label}", count, sum(map(len, chunks)), through_chunks(encoder, chunks))


if __name__ == "__main__":
    main()
