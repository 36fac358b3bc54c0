"""What a server still receives, by the rows of SHOW REPLICA STATUS."""

from __future__ import annotations

import pytest
from dblog.core.successor import Receives
from dblog.dialects.mysql.wire.replication import of_channels

Row = dict[str, object]


def new(io: str, sql: str, lag: int | None = None) -> Row:
    return {"Replica_IO_Running": io, "Replica_SQL_Running": sql, "Seconds_Behind_Source": lag}


def old(io: str, sql: str, lag: int | None = None) -> Row:
    return {"Slave_IO_Running": io, "Slave_SQL_Running": sql, "Seconds_Behind_Master": lag}


@pytest.mark.parametrize("row", [new, old])
def test_one_channel(row) -> None:
    assert of_channels([row("Yes", "Yes", 3)]) == (Receives.FOLLOWS, 3.0)
    assert of_channels([row("Yes", "No")]) == (Receives.STOPPED, None)
    assert of_channels([row("Connecting", "Yes")]) == (Receives.DISCONNECTED, None)
    assert of_channels([row("Connecting", "No")]) == (Receives.STOPPED, None)
    assert of_channels([row("No", "No")]) == (Receives.STOPPED, None)
    assert of_channels([row("No", "Yes", 0)]) == (Receives.STOPPED, None)


def test_what_has_been_received_and_is_still_applied_may_hold_what_lacks() -> None:
    assert of_channels([new("No", "Yes", 40)]) == (Receives.FOLLOWS, 40.0)


def test_of_several_channels_the_one_counts_that_can_bring_most() -> None:
    assert of_channels([new("No", "No"), new("Yes", "Yes", 2), new("Connecting", "Yes", 9)]) == (Receives.FOLLOWS, 9.0)
    assert of_channels([new("No", "No"), new("Connecting", "Yes")]) == (Receives.DISCONNECTED, None)


def test_a_server_without_channels_receives_nothing() -> None:
    assert of_channels([]) == (Receives.NOTHING, None)
