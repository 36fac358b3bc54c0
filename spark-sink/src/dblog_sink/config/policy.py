"""The configured limits of merging, for ``batches/schedule.py``."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The configured limits of merging."""

    trigger_s: float
    """Seconds between two batches, which may be spent at once without delaying the next."""
    rows_min: int
    """Least number of rows that can make a merge worth its cost by number alone."""
    rows_max: int
    """Maximum number of rows of one merge; a batch is never divided."""
    age_max_s: float
    """Maximum seconds that landed records wait for their merge to begin, if a thread is free."""
    patience: float = 3.0
    """Factor by which a table rests longer than its merge took."""
    snapshots: bool = False
    """True with a manifest: everything lands, and is merged for snapshots only
    (``snapshots/rule.py``).
    """
