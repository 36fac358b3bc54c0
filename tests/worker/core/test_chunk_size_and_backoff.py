"""Chunk sizes and waiting times stay within their limits."""

from __future__ import annotations

from dblog.core.backoff import Backoff
from dblog.core.chunk_size import ChunkLimits, rows_after_overflow, rows_next
from hypothesis import given
from hypothesis import strategies as st

LIMITS = ChunkLimits(rows_max=20_000, bytes_max=16 << 20, time_s=1.0, rows_min=16)


@given(st.integers(16, 20_000), st.integers(0, 20_000), st.integers(0, 1 << 30), st.floats(0, 1000))
def test_a_chunk_never_leaves_its_limits(asked: int, read: int, size: int, elapsed_s: float) -> None:
    wanted = rows_next(LIMITS, rows_asked=asked, rows_read=read, bytes_read=size, elapsed_s=elapsed_s)

    assert LIMITS.rows_min <= wanted <= LIMITS.rows_max
    assert wanted <= 2 * asked


def test_fast_chunks_grow_twofold_and_slow_or_heavy_ones_shrink_at_once() -> None:
    fast = rows_next(LIMITS, rows_asked=1000, rows_read=1000, bytes_read=10_000, elapsed_s=0.01)
    slow = rows_next(LIMITS, rows_asked=1000, rows_read=1000, bytes_read=10_000, elapsed_s=10)
    heavy = rows_next(LIMITS, rows_asked=1000, rows_read=1000, bytes_read=160 << 20, elapsed_s=0.5)

    assert (fast, slow, heavy) == (2000, 100, 100)


def test_an_overflow_asks_for_a_quarter_but_never_for_nothing() -> None:
    assert rows_after_overflow(LIMITS, rows_asked=1000) == 250
    assert rows_after_overflow(LIMITS, rows_asked=16) == 16


@given(st.integers(1, 10_000), st.floats(0, 1, exclude_max=True))
def test_waiting_doubles_up_to_the_maximum_and_at_least_half_of_it_is_fixed(failures: int, chance: float) -> None:
    backoff = Backoff(first_s=0.25, max_s=30.0)
    full = min(30.0, 0.25 * 2.0 ** min(failures - 1, 32))

    assert full / 2 <= backoff.delay_s(failures, chance=chance) <= full
