"""A schema history log in memory; like the topic, it passes tests/contracts/history_log.py."""

from __future__ import annotations

from collections.abc import Iterator

from dblog.errors import TransientError


class FakeHistoryLog:
    """A log of records in a list. While ``away`` is set, every call fails as without a broker."""

    def __init__(self) -> None:
        self.records: list[tuple[bytes | None, bytes | None]] = []
        self.away = False

    def read(self) -> Iterator[tuple[bytes | None, bytes | None]]:
        if self.away:
            raise TransientError("the schema history log is away")
        yield from self.records[:]

    def write(self, records: list[tuple[bytes, bytes | None]]) -> None:
        if self.away:
            raise TransientError("the schema history log is away")
        self.records.extend(records)

    def close(self) -> None:
        pass

    def compact(self) -> None:
        """Keep only the last record of each key, as the broker's cleaner does."""
        newest = {key: value for key, value in self.records if key is not None}
        keyless = [record for record in self.records if record[0] is None]
        self.records = keyless + list(newest.items())
