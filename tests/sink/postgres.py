"""Tables of PostgreSQL whose records the worker's own encoder makes, for tests of the sink."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dblog.codecs.avro import avro_text, frame
from dblog.dialects.postgres.pgoutput._fast import FastPlan
from dblog.dialects.postgres.pgoutput.position import sequence_of
from dblog.dialects.postgres.pgoutput.row_image import PostgresImage
from dblog.dialects.postgres.pgoutput.source_block import PostgresContext
from dblog.dialects.postgres.values.modes import TypeModes
from dblog.model import Column
from sink.harness import Record
from support.pgoutput_tables import UNSENT, change_of, line_of, plan_of
from support.registry_server import RegistryServer

EPOCH = 1_000_000
_TS_US = 1_700_000_000_000_000


def column(name: str, type_: str, **more: Any) -> Column:
    """A column that may be NULL, unless ``more`` says otherwise."""
    return Column(**{"name": name, "type": type_, "type_text": type_, "nullable": True, **more})


ID = column("id", "int8", nullable=False)


class PostgresTopic:
    """A table's topic. A row is the server's texts by column; None is NULL, UNSENT a large value that an UPDATE left alone."""

    def __init__(
        self,
        registry: RegistryServer,
        columns: Sequence[Column],
        *,
        key: tuple[str, ...] = ("id",),
        modes: TypeModes | None = None,
        name: str = "t",
    ) -> None:
        self.modes = modes or TypeModes()
        plan = plan_of(list(columns), key=key, modes=self.modes, name=name, tombstones=False, skipped_operations=frozenset())
        frames = [b"" if one is None else frame(registry.register(avro_text(one))) for one in (plan.key_schema, plan.value_schema)]
        self.plan = replace(plan, key_prefix=frames[0], value_prefix=frames[1])
        self.topic = plan.topic
        self._names = [one.name for one in columns]
        self._encoder = FastPlan(self.plan, PostgresImage(self.modes))

    def inserted(self, row: Mapping[str, Any], *, commit: int, number: int = 1) -> Record:
        """An INSERT."""
        return self._logged("c", change_of(None, self._texts(row)), commit, number)[0]

    def updated(
        self, row: Mapping[str, Any], *, commit: int, number: int = 1, before: Mapping[str, Any] | None = None, key_only: bool = False
    ) -> list[Record]:
        """An UPDATE; ``before``: the old row, or with ``key_only`` the columns of the replica identity."""
        old = None if before is None else self._texts(before)
        return self._logged("u", change_of(old, self._texts(row), letter=b"K" if key_only else b"O"), commit, number)

    def deleted(self, row: Mapping[str, Any], *, commit: int, number: int = 1, key_only: bool = True) -> Record:
        """A DELETE; with ``key_only`` it shows the columns of the replica identity alone."""
        return self._logged("d", change_of(self._texts(row), None, letter=b"K" if key_only else b"O"), commit, number)[0]

    def dumped(self, row: Mapping[str, Any], *, low: int) -> Record:
        """A row of a chunk whose low watermark was committed at ``low``."""
        keys, values, _, _ = self._encoder.encode_chunk(line_of(self._texts(row)), self._context(low, 0, None), frozenset())
        return Record(topic=self.topic, key=keys[0], value=values[0])

    def _logged(self, op: str, body: bytes, commit: int, number: int) -> list[Record]:
        keys, values, _ = self._encoder.encode_rows(op, body, self._context(commit, number, commit - 8))
        return [Record(topic=self.topic, key=key, value=value) for key, value in zip(keys, values, strict=True)]

    def _context(self, commit: int, number: int, lsn: int | None) -> PostgresContext:
        high, low = sequence_of(epoch=EPOCH, lsn=commit, number=number)
        return PostgresContext(
            database="shop",
            xid=None if lsn is None else commit,
            lsn=lsn,
            source_ts_us=_TS_US + commit,
            now_us=_TS_US + commit,
            sequence_high=high,
            sequence_low=low,
            snapshot="incremental" if lsn is None else None,
        )

    def _texts(self, row: Mapping[str, Any]) -> list[Any]:
        values = (row.get(name) for name in self._names)
        return [
            value if value is None or value is UNSENT else value if isinstance(value, bytes) else str(value).encode() for value in values
        ]
