"""Looking ahead in the log ends when its task does."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any
from unittest.mock import sentinel

import pytest
from dblog.dialects.mysql.binlog.items import LogOffset
from dblog.dialects.mysql.task.lookahead import LookAhead
from dblog.errors import TransientError
from dblog.model import TableId


class BusyLog:
    """Always has something to read, and never comes to an end."""

    def __init__(self) -> None:
        self.closed = False

    def recv(self, timeout_s: float) -> bytes:
        del timeout_s
        return b"more"

    def close(self) -> None:
        self.closed = True


def test_it_stops_with_its_task_also_while_the_log_goes_on_and_on() -> None:
    log = BusyLog()
    decoder: Any = SimpleNamespace(start=lambda *_, **__: None, feed=lambda _: [], flush=list, held=False)
    asked = itertools.count()
    logs: Any = SimpleNamespace(open_second_log=lambda _file, _pos: log, statements_decoder=lambda: decoder)
    stopped: Any = SimpleNamespace(is_set=lambda: next(asked) >= 3)
    ahead = LookAhead(logs, sentinel.statements, stopped=stopped, epoch=0)

    with pytest.raises(TransientError, match=r"from binlog\.1:4 on"):
        ahead.touches(TableId("shop", "t"), LogOffset(file="binlog.1", pos=4), (0, 4), (0, 5000))

    assert next(asked) == 4
    assert log.closed
