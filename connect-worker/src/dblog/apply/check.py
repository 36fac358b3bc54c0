"""``dblog connectors check``: tests if a group of workers would accept connectors from this
machine.

Nothing is changed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from dblog.apply.interface import Interface, read_login
from dblog.errors import DefiniteError

_MISSING = "database.hostname"
_INCOMPLETE = {"name": "dblog-check", "connector.class": "io.debezium.connector.mysql.MySqlConnector", "topic.prefix": "dblog-check"}


def check(url: str, *, login: Path | None, authorities: Path | None) -> Iterator[str]:
    """Yield a line for each check that passes; raise DblogError at the first one that fails."""
    with Interface(url, login=read_login(login, os.environ), authorities=authorities) as interface:
        interface.require_ready()
        yield f"the group answers, led by {interface.leader}"
        yield f"this login is let in; connectors: {len(interface.get('/connectors'))}"
        if _MISSING not in interface.validate(_INCOMPLETE):
            raise DefiniteError(f"{interface.address} takes a configuration without {_MISSING}; name a dblog worker with --url")
        yield "configurations are validated"
