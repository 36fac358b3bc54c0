"""The source block of chunk rows, for dialects that do not build one."""

from __future__ import annotations

from dblog.codecs.plan import RowContext
from dblog.core.watermark import WatermarkPosition


def chunk_context(low: WatermarkPosition, now_us: int) -> RowContext:
    """Return the source block with the position of the window's low watermark."""
    return RowContext(
        source_ts_us=now_us, now_us=now_us, sequence_high=low.sequence_high, sequence_low=low.sequence_low, snapshot="incremental"
    )
