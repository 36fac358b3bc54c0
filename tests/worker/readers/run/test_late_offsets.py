"""An offset that Kafka stores late stands for what it holds: the fold has gone on meanwhile, and none of that is stored. # I1"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from dblog.codecs.transactions import TransactionCounts
from dblog.core.requested import Requests
from dblog.dialects.mysql.binlog.offset import LogProgress
from dblog.readers.dump.order import Step
from dblog.readers.run.offset import SourceOffset
from dblog.readers.run.running import Running
from dblog.readers.standing_warnings import StandingWarnings
from worker.readers.signals.test_signal_file import Task as WithSignalFile


class Run:
    """A run's fold, and what is told of a stored offset: the versions of tables, the desk of dumps, and the file of signals."""

    def __init__(self, path: Path) -> None:
        path.write_text("")
        self.signals = WithSignalFile(path)
        self.warnings = StandingWarnings()
        self.fold = SourceOffset(progress(4), dump=None, warnings=self.warnings)
        self.schemas, self.desk = Mock(), Mock()

    def advance(self, requests: Requests) -> None:
        self.fold.advance(Step(log_offsets=(), requests=requests))
        self.fold.progress.pos += 100  # as the log moves it

    def commit(self, offset: object) -> None:
        given = SimpleNamespace(
            schemas=self.schemas, desk=self.desk, fold=self.fold, _channels=[self.signals.file], _exchange=None, _source=Mock()
        )
        Running.commit(given, offset)  # type: ignore[arg-type]


def progress(pos: int, counted: TransactionCounts | None = None) -> LogProgress:
    return LogProgress(file="binlog.000001", pos=pos, gtids=None, event=0, transaction=counted)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "signals"


def test_a_late_offset_takes_no_signal_and_no_version_that_came_after_it(path: Path) -> None:
    run = Run(path)
    late = run.fold.offset()
    sequence = run.fold.sequence
    path.write_text('{"id":"1","type":"stop-snapshot"}\n')
    run.signals.look()
    run.advance(run.signals.known)

    run.commit(late)
    run.signals.look()

    assert run.fold.sequence > sequence
    run.schemas.committed.assert_called_once_with(sequence)
    run.desk.stored.assert_called_once_with(Requests(), dump_ended=False)
    assert path.read_text(), "a kill now finds the signal in the file: it is in no stored offset"

    run.commit(run.fold.offset())
    run.signals.look()
    assert not path.read_text()


def test_an_offset_that_stays_for_lack_of_room_stands_for_what_it_holds(path: Path) -> None:
    run = Run(path)
    before, sequence = run.fold.offset(), run.fold.sequence
    path.write_text('{"id":"1","type":"stop-snapshot"}\n')
    run.signals.look()
    many = {f"shop.a_table_of_many_{number:06}": 1 for number in range(5000)}
    run.fold._progress = progress(104, TransactionCounts("id", many))  # noqa: SLF001  as the log moves it
    run.fold.advance(Step(log_offsets=(), requests=run.signals.known))
    assert run.fold.offset() == before

    run.commit(run.fold.offset())
    run.signals.look()

    run.schemas.committed.assert_called_once_with(sequence)
    assert path.read_text()


def test_a_warning_stands_while_an_offset_waits_for_room_and_until_a_further_one_is_stored(path: Path) -> None:
    run = Run(path)
    run.commit(run.fold.offset())
    assert run.warnings.texts() == ()
    many = {f"shop.a_table_of_many_{number:06}": 1 for number in range(5000)}
    run.fold._progress = progress(104, TransactionCounts("id", many))  # noqa: SLF001  as the log moves it
    run.commit(run.fold.offset())
    run.commit(run.fold.offset())

    (text,) = run.warnings.texts()
    assert "the connector's offset does not move: an open transaction has changed so many tables" in text
    assert "provide.transaction.metadata=false" in text
    run.fold._progress = progress(204)  # noqa: SLF001
    offset = run.fold.offset()
    assert run.warnings.texts() == (text,), "it is not stored yet"
    run.commit(offset)
    assert run.warnings.texts() == ()
