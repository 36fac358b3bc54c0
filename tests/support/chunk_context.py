"""The source block of a chunk's rows where no dialect has one of its own."""

from __future__ import annotations

from dblog.codecs.plan import RowContext
from dblog.core.watermark import WatermarkPosition


def chunk_context(low: WatermarkPosition, now_us: int) -> RowContext:
    """By the position of the window's low watermark."""
    return RowContext(
        source_ts_us=now_us, now_us=now_us, sequence_high=low.sequence_high, sequence_low=low.sequence_low, snapshot="incremental"
    )
