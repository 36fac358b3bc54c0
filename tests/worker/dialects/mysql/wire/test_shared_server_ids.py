"""A MariaDB server that lacks transactions with its own server_id: other servers make such too."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from dblog.core.successor import Receives
from dblog.dialects.mariadb.session import MariaDbSession
from dblog.dialects.mysql.wire import session as sessions
from dblog.errors import PositionLostError, TransientError


def node(monkeypatch: pytest.MonkeyPatch, *, server_id: int, receives: Receives) -> Any:
    """A server that has come to 1-1-1000."""
    monkeypatch.setattr(sessions, "received_by", lambda _wire, _statement: (receives, None))
    found: Any = MariaDbSession.__new__(MariaDbSession)
    found._wire = None  # noqa: SLF001 - it has no server
    found.facts = SimpleNamespace(server_id=server_id, uses_gtids=True, version=(10, 11, 8), server_uuid=None)
    found.settings = SimpleNamespace(address=f"node{server_id}:3306")
    found.query = lambda text, *_, **__: [("1-1-1000",)] if "gtid_binlog_state" in text else [(1_800_000_000.0,)]
    found.purged_gtids = lambda: ""
    return found


@pytest.mark.parametrize("server_id", [1, 2])
def test_a_node_of_a_cluster_with_one_server_id_is_waited_for(monkeypatch: pytest.MonkeyPatch, server_id: int) -> None:
    """Galera with wsrep_gtid_mode=ON: each node writes its transactions with the same domain and server_id."""
    behind = node(monkeypatch, server_id=server_id, receives=Receives.FOLLOWS)
    with pytest.raises(TransientError, match=r"lacks transactions that were read before: 1-1-1002; it follows another server"):
        behind.check_position(file=None, pos=None, gtids="1-1-1002", read_ts_s=1_799_999_999)


def test_a_server_that_receives_nothing_has_lost_its_own_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    restored = node(monkeypatch, server_id=1, receives=Receives.NOTHING)
    with pytest.raises(PositionLostError, match=r"has lost transactions of its own that were read before \(1-1-1002\)"):
        restored.check_position(file=None, pos=None, gtids="1-1-1002", read_ts_s=1_799_999_999)
