"""How a play of threads ends: in time, without an error, and with an output whose fold is the source. # I3"""

from __future__ import annotations

import threading
import time
from typing import Any


def check_the_end(world: Any, seed: int, deadline_s: float) -> None:
    """Wait until the consumer has taken everything, and compare."""
    assert not world.errors, world.errors
    assert time.monotonic() < deadline_s, f"seed {seed}: not done"
    seen = -1
    while seen != len(world.batches) or world.queue.records_total:
        seen = len(world.batches)
        threading.Event().wait(0.03)  # the consumer polls every 10 ms
    assert world.fold() == world.source(), f"seed {seed}"
