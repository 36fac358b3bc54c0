"""The places where dblog meets something that has two implementations (a compiled one and its slow twin, a server and its fake).

Each protocol has a contract suite in tests/contracts that every implementation passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Protocol

from dblog.model import Headers, OffsetMap

EncodedRows = tuple[list[bytes | None], list[bytes | None], dict[int, Headers]]
"""Keys, values (None: tombstone), and the extra headers of the few records that have any."""


class OffsetFold(Protocol):
    """How far a source has come, as the fold of the steps of acknowledged batches. # I1"""

    def advance(self, step: object) -> None:
        """Take one batch's step; steps arrive in the order of the batches."""

    def offset(self) -> OffsetMap:
        """The offset to store now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkRows:
    """The rows of one chunk as the server sent them: row packets with their headers, not decoded yet."""

    rows: bytes
    row_count: int
    last_key: tuple[Any, ...] | None
    """Key values of the last row, as parameters of the next SELECT; None when there was no row or the table has no key."""


class DumpConnection(Protocol):
    """The connection(s) a chunk reader works with: marks are committed on their own, chunks are read in a snapshot."""

    def write_mark(self, name: str, token: str) -> None:
        """Commit the token to the mark row ``name``, in a transaction of its own; returns when it is committed."""

    def begin_snapshot(self) -> None:
        """Start a consistent snapshot."""

    def read_mark(self, name: str) -> str | None:
        """The token that the snapshot sees in row ``name``."""

    def select(self, sql: str, parameters: Sequence[Any], *, bytes_max: int = 0) -> ChunkRows:
        """Run one SELECT inside the snapshot."""

    def end_snapshot(self) -> None:
        """End the snapshot."""

    def close(self) -> None:
        """Give up the connections, also from another thread, also in the middle of a SELECT."""


class RowEncoder(Protocol):
    """A compiled row plan or its slow twin: source images to finished records."""

    plan: Any

    def encode_rows(self, op: str, body: bytes, context: Any) -> EncodedRows:  # noqa: ANN401 - codecs.plan.RowContext, a layer above
        """Records of one rows event."""

    def encode_chunk(
        self, rows: bytes, context: Any, struck: AbstractSet[bytes]  # noqa: ANN401 - codecs.plan.RowContext, a layer above
    ) -> tuple[list[bytes | None], list[bytes | None], int, int]:
        """Records of a chunk but for the struck keys; how many were dropped; the digest over all rows read."""
