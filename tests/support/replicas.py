"""Operations on replicas of real servers: follow a primary, stop, reset, take over its login."""

from __future__ import annotations

from stack.database import Database
from support.servers import execute


def follow_primary(replica: Database, primary: Database) -> None:
    """Replicate from the primary by GTID, from the beginning."""
    login = f"HOST='{primary.host}', {{}}PORT={primary.port}, {{}}USER='{primary.user}', {{}}PASSWORD='{primary.password}'"
    if primary.flavor == "mysql":
        options = login.replace("HOST", "SOURCE_HOST").format(*["SOURCE_"] * 3)
        statements = (f"CHANGE REPLICATION SOURCE TO {options}, SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1", "START REPLICA")
    else:
        options = login.replace("HOST", "MASTER_HOST").format(*["MASTER_"] * 3)
        statements = (f"CHANGE MASTER TO {options}, MASTER_USE_GTID=slave_pos", "START SLAVE")
    execute(replica, *statements)


def stop_following(replica: Database) -> None:
    """Stop replication; the server keeps its settings."""
    execute(replica, "STOP REPLICA" if replica.flavor == "mysql" else "STOP SLAVE")


def follow_again(replica: Database) -> None:
    """Start replication after a stop."""
    execute(replica, "START REPLICA" if replica.flavor == "mysql" else "START SLAVE")


def make_primary(replica: Database) -> None:
    """Stop replication for good, as in a failover."""
    stop_following(replica)
    execute(replica, "RESET REPLICA ALL" if replica.flavor == "mysql" else "RESET SLAVE ALL")


def same_password(server: Database, of: Database) -> None:
    """Give the server the other one's login, because a connector knows only an address."""
    server.keep_password(of.password)
