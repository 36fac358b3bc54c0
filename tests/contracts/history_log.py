"""What every ``readers.log.history.HistoryLog`` does: the fake and the Kafka topic run this same suite."""

from __future__ import annotations

from dblog.readers.log.history import HistoryLog


class HistoryLogContract:
    """Subclass it and give a ``history_log`` fixture: an empty log."""

    def test_an_empty_log_reads_as_nothing(self, history_log: HistoryLog) -> None:
        assert list(history_log.read()) == []

    def test_what_was_written_is_read_in_order(self, history_log: HistoryLog) -> None:
        records = [(b"a", b"1"), (b"b", b"2"), (b"a", b"3")]

        history_log.write(records[:1])
        history_log.write(records[1:])

        assert list(history_log.read()) == records

    def test_an_erasure_is_read_as_none(self, history_log: HistoryLog) -> None:
        history_log.write([(b"a", b"1"), (b"a", None)])

        assert list(history_log.read())[-1] == (b"a", None)

    def test_a_record_of_several_megabytes_goes_through(self, history_log: HistoryLog) -> None:
        value = b"column " * 700_000

        history_log.write([(b"wide", value)])

        assert list(history_log.read()) == [(b"wide", value)]

    def test_reading_twice_gives_the_same(self, history_log: HistoryLog) -> None:
        history_log.write([(str(n).encode(), b"v") for n in range(2500)])

        assert list(history_log.read()) == list(history_log.read())
        assert len(list(history_log.read())) == 2500
