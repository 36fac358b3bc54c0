"""Decides whether missing records of a transaction can still come.

They cannot once the sink has read the topic up to the end that it had after the END landed. Kafka
is asked only about topics that the sink does not know from their beginning, and about transactions
without a BEGIN.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from dblog_sink.snapshots.rule import Incomplete
from dblog_sink.state.control_table import ControlTable
from dblog_sink.state.notes import EXPIRED, KnownLate
from dblog_sink.state.snapshot import NOWHERE, LandedOffset

Offsets = Mapping[str, Mapping[int, int]]
TopicOffsets = Callable[[Collection[str]], tuple[Offsets, Offsets, Offsets]]
"""Function from topics to three mappings by topic and partition: the first offset that exists, the
end, and the offset up to which the sink has read. Topics that do not exist are left out.
"""


class Waivers:
    """The topics whose missing records cannot come any more.

    ``read_to`` maps a topic to an offset in the transaction topic. Records of transactions up to
    there that have not landed are not in Kafka either.
    """

    def __init__(self, control: ControlTable, offsets: TopicOffsets) -> None:
        self._control = control
        self._offsets = offsets
        self._asked: dict[str, tuple[Mapping[int, int], LandedOffset]] = {}
        self.read_to: dict[str, LandedOffset] = {}

    def ask(self, blocker: Incomplete, newest: Callable[[], LandedOffset]) -> None:
        """Take a step towards finding out whether the blocker's missing records can still come.

        ``newest`` returns the last landed record of the transaction topic.
        """
        state = self._control.state
        met = {topic for topic, _ in state.high_water_marks}
        topics = [topic for topic in blocker.missing if blocker.begin is None or topic in state.late or topic not in met]
        if not topics:
            return
        first, end, read = self._offsets(topics)
        for topic in topics:
            if topic not in met and all(offset == end[topic][partition] > 0 for partition, offset in first.get(topic, {}).items()):
                self._control.record([KnownLate(topic, EXPIRED)], "recorded")
            wanted, upto = self._asked.get(topic, (None, NOWHERE))
            if wanted is None or upto < blocker.first:
                self._asked[topic] = (end.get(topic, {}), newest())
            elif all(read.get(topic, {}).get(partition, 0) >= offset for partition, offset in wanted.items()):
                self.read_to[topic] = upto
                del self._asked[topic]


class Rest:
    """A check that the source is idle.

    It holds if nothing came while the sink read all that Kafka had at the first look.
    """

    def __init__(self, offsets: TopicOffsets) -> None:
        self._offsets = offsets
        self._seen: object = None
        self._ends: Offsets = {}

    def moved(self) -> None:
        """Record that records came. The next look then counts as the first."""
        self._seen = None

    def shown(self, topics: Collection[str], seen: object) -> bool:
        """Look once, and return True if the source is idle since an earlier look.

        ``seen`` is what waits; it must be the same at both looks.
        """
        _, end, read = self._offsets(topics)
        if self._seen != seen:
            self._seen, self._ends = seen, end
            return False
        if any(read.get(topic, {}).get(partition, 0) < offset for topic, ends in self._ends.items() for partition, offset in ends.items()):
            return False
        self._seen = None
        return True
