"""Detects that the producer has lost records, for which the task would wait forever.

A record normally waits only while its broker is away. But librdkafka (2.16) may keep the records of
a partition that had no leader when the producer first heard of it, after a restart of the broker.
It neither sends nor reports them, although the partition has a leader again and other clients write
to it. The remedy is to restart from the stored offset with a new producer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from dblog.errors import TransientError
from dblog.kafka.leaders import Leaders

LIMIT_S = 60.0
AGAIN_S = 30.0


class Unacknowledged:
    """Watch over the acknowledgements of one run.

    ``none`` names in the error message what was not acknowledged.
    """

    def __init__(self, leaders: Leaders, *, none: str = "nothing") -> None:
        self._leaders = leaders
        self._none = none
        self._looked_s = 0.0
        self._led = False

    def check(self, waited_s: float, topics: Callable[[], Collection[str]]) -> None:
        """Raise TransientError if the producer has stalled.

        ``waited_s`` is the age of the oldest unacknowledged record, or 0 while the brokers report
        errors; ``topics`` returns the topics of all unacknowledged records. The producer has
        stalled if this takes ``LIMIT_S`` or longer, and two checks in a row found that the brokers
        could take the records.
        """
        if waited_s < LIMIT_S:
            self._looked_s, self._led = 0.0, False
        elif waited_s - self._looked_s >= AGAIN_S:
            self._looked_s = waited_s
            led_before, self._led = self._led, self._leaders.are_led(topics())
            if led_before and self._led:
                message = (
                    f"Kafka has acknowledged {self._none} for {waited_s:.0f} s, though the brokers answer and each partition has a leader: the producer may "
                    "have forgotten what it was given; the task starts again with another one"
                )
                raise TransientError(message)
