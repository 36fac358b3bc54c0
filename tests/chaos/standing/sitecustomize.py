"""Have the producers of a task stand still, as librdkafka's may: they take records, send none, and say nothing.

Python loads this at its start where the folder is on its path, as it is for the workers of a campaign. The file that ``CHAOS_STANDS_STILL`` names says when:
producers that were made before it was written stand still, later ones work.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

FILE = os.environ.get("CHAOS_STANDS_STILL", "")

if FILE and "task" in sys.orig_argv:
    import confluent_kafka

    class StandingProducer(confluent_kafka.Producer):
        """A real producer until the file is written."""

        def __init__(self, settings: dict[str, Any], *given: Any, **named: Any) -> None:
            super().__init__(settings, *given, **named)
            self._settings = settings
            self._nowhere: Any = None
            self._made_s = time.time()

        def produce(self, *given: Any, **named: Any) -> None:
            stands_still = os.path.exists(FILE) and os.stat(FILE).st_mtime > self._made_s  # noqa: PTH110, PTH116 - before anything else is loaded
            if stands_still and self._nowhere is None:
                void = {"bootstrap.servers": "127.0.0.1:9", "log_level": "0", "delivery.timeout.ms": "0"}
                self._nowhere = confluent_kafka.cimpl.Producer({**self._settings, **void})
            (self._nowhere.produce if stands_still else super().produce)(*given, **named)

        def flush(self, *given: Any) -> int:
            return super().flush(*given) + len(self)

        def purge(self, *given: Any, **named: Any) -> None:
            if self._nowhere is not None:
                self._nowhere.purge(*given, **named)
                self._nowhere.poll(0)
            super().purge(*given, **named)

        def __len__(self) -> int:
            return super().__len__() + (0 if self._nowhere is None else len(self._nowhere))

    confluent_kafka.Producer = StandingProducer  # type: ignore[misc]
