"""Whether the producer has forgotten records, so that the task would wait for good.

A record waits as long as its broker is away, and no longer. But librdkafka (2.16) may keep those of a partition that had no leader when the producer
first heard of it, behind a broker's restart: it neither sends nor reports them, though the partition has a leader again and other clients write to it. So the
task starts again from its stored offset, with a new producer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from dblog.errors import TransientError

LIMIT_S = 60.0
AGAIN_S = 30.0


class Unacknowledged:
    """One run's. ``are_led``: whether the brokers answer, and each partition of these topics has its leader and all of its replicas. ``none``: what has not
    been acknowledged, for the message.
    """

    def __init__(self, are_led: Callable[[Collection[str]], bool], *, none: str = "nothing") -> None:
        self._are_led = are_led
        self._none = none
        self._looked_s = 0.0
        self._led = False

    def check(self, waited_s: float, topics: Callable[[], Collection[str]]) -> None:
        """``waited_s``: for how long what was sent first has not been acknowledged while no trouble was heard of; ``topics``: of all that is under way.
        TransientError once that is long, and the brokers could take it at two looks.
        """
        if waited_s < LIMIT_S:
            self._looked_s, self._led = 0.0, False
        elif waited_s - self._looked_s >= AGAIN_S:
            self._looked_s = waited_s
            led_before, self._led = self._led, self._are_led(topics())
            if led_before and self._led:
                message = (
                    f"Kafka has acknowledged {self._none} for {waited_s:.0f} s, though the brokers answer and each partition has a leader: the producer may "
                    "have forgotten what it was given; the task starts again with another one"
                )
                raise TransientError(message)
