"""The configured limits of merging, as ``batches/schedule.py`` weighs them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The configured limits."""

    trigger_s: float
    """Time between two batches: what may be spent at once without delaying the next."""
    rows_min: int
    """A merge of fewer rows is never worth its price for their number alone."""
    rows_max: int
    """Rows of one merge at most; one batch is never divided."""
    age_max_s: float
    """What has landed waits at most this long for its merge to begin, threads permitting."""
    patience: float = 3.0
    """A table rests this many times as long as its merge took."""
    snapshots: bool = False
    """There is a manifest: everything lands, and is merged for snapshots alone (``snapshots/rule.py``)."""
