"""Which privileges of the whole server the doctor leaves to a connector, beyond those that every connector needs."""

from types import SimpleNamespace

import pytest
from dblog.core.pressure import Limit
from dblog.dialects.mysql.task.kind import _measures


@pytest.mark.parametrize(
    ("limits", "replica", "kept"),
    [
        ((), False, []),
        ((), True, ["SLAVE MONITOR"]),
        ((Limit.REPLICA_LAG, Limit.HISTORY_LENGTH), True, ["SLAVE MONITOR"]),
        ((Limit.TRANSACTION_AGE,), False, ["PROCESS"]),
    ],
)
def test_what_limits_are_measured_with_and_what_shows_a_replicas_filters_is_kept(limits, replica, kept):
    session = SimpleNamespace(history_privilege=None, replica_privilege="SLAVE MONITOR")

    assert _measures(session, dict.fromkeys(limits, 1.0), replica=replica) == kept
