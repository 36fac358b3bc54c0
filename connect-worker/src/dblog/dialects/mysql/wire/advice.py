"""Advice about a server before a connector starts: how long it keeps its log, and what a replica leaves out.

Nothing here stops a connector, so validation leaves it to the person who prepares the database
(``dblog doctor``). Each sentence names the section of the page that helps.
"""

from __future__ import annotations

from collections.abc import Sequence

from dblog.dialects.guide import Hosting, Topic, cited
from dblog.dialects.mysql.wire.connect import PrivilegeError
from dblog.dialects.mysql.wire.hosting import how_to_set
from dblog.dialects.mysql.wire.session import Session
from dblog.errors import TableChangedError
from dblog.model import TableId

RETENTION_MIN_S = 86_400
"""The shortest time that is enough for an outage at night."""
READ_BYTES_PER_S = 20_000_000
"""The speed of a dump by which its time is estimated: one reader of a server on a network drive."""
_HOUR_S = 3600
_RETENTION, _RETENTION_BEFORE = ("binlog_expire_logs_seconds", "604800"), ("expire_logs_days", "7")
"""The variable of the log's retention and its value for a week; it counted days before."""
_SECONDS_SINCE = {"mysql": (8, 0, 1), "mariadb": (10, 6, 1)}
_RDS_HOURS = "SELECT value FROM mysql.rds_configuration WHERE name = 'binlog retention hours'"
_SHOW_HOURS = "CALL mysql.rds_show_configuration"
_SET_HOURS = "CALL mysql.rds_set_configuration('binlog retention hours', 168);"


def advise(session: Session, tables: Sequence[TableId]) -> list[str]:
    """Return the advice; ``tables`` are the captured ones."""
    return [*_of_retention(session, session.data_bytes(tables)), *_of_size(session), *_of_replica(session)]


def dump_s(data_bytes: int) -> float:
    """Return the estimated time of a dump, in seconds."""
    return data_bytes / READ_BYTES_PER_S


def _of_retention(session: Session, data_bytes: int) -> list[str]:
    hosting = session.facts.hosting
    if hosting in (Hosting.RDS, Hosting.AURORA):
        return _of_amazon(session, data_bytes)
    kept_s = session.log_retention_s()
    name, week = _RETENTION_BEFORE if session.facts.version < _SECONDS_SINCE[session.flavor] else _RETENTION
    if kept_s is None and hosting is Hosting.AZURE:
        sentence = (
            f"{name} is 0 at {session.settings.address}, which Azure takes for no time at all: a file of the log goes as soon as nobody reads it; "
            f"{how_to_set(hosting, name, week)}"
        )
        return [cited(sentence, session.facts.flavor, Topic.RETENTION, hosting)]
    return _too_short(session, kept_s, data_bytes, how_to_set(hosting, name, week))


def _of_amazon(session: Session, data_bytes: int) -> list[str]:
    """Return advice about the hours for which Amazon's own job keeps the log. Without a value it
    deletes a file as soon as no replica of its own needs it.
    """
    facts, address = session.facts, session.settings.address
    try:
        rows = session.query(_RDS_HOURS, doing="reading how long the log is kept")
    except (PrivilegeError, TableChangedError):
        sentence = (
            f"how long {address} keeps its log is in a setting that the account may not read; as the administrator see {_SHOW_HOURS}; "
            f"and if it is empty or short, run: {_SET_HOURS}"
        )
        return [cited(sentence, facts.flavor, Topic.RETENTION, facts.hosting)]
    hours = next((int(value) for (value,) in rows if value is not None and str(value).isdigit()), None)
    if hours is None:
        sentence = f"the server at {address} keeps its log for nobody outside ('binlog retention hours' is empty); run: {_SET_HOURS}"
        return [cited(sentence, facts.flavor, Topic.RETENTION, facts.hosting)]
    return _too_short(session, hours * _HOUR_S, data_bytes, f"run: {_SET_HOURS}")


def _too_short(session: Session, kept_s: float | None, data_bytes: int, remedy: str) -> list[str]:
    """Return advice if the log is kept for less than a day, or for less time than the dump takes
    that a lost position costs.
    """
    if kept_s is None or kept_s >= max(RETENTION_MIN_S, dump_s(data_bytes)):
        return []
    sentence = (
        f"the server at {session.settings.address} keeps its log for {_hours(kept_s)}: a connector that is down for longer has to dump all "
        f"tables again, which takes about {_hours(dump_s(data_bytes))} ({_size(data_bytes)} of rows at {READ_BYTES_PER_S // 1_000_000} MB a second); {remedy}"
    )
    return [cited(sentence, session.facts.flavor, Topic.RETENTION, session.facts.hosting)]


def _of_size(session: Session) -> list[str]:
    kept = session.log_bytes_max()
    if kept is None:
        return []
    sentence = (
        f"the server at {session.settings.address} keeps {_size(kept)} of its log at most (max_binlog_total_size, binlog_space_limit), however old: "
        "a connector that is down while more is written has to dump all tables again"
    )
    return [cited(sentence, session.facts.flavor, Topic.RETENTION, session.facts.hosting)]


def _of_replica(session: Session) -> list[str]:
    """Return advice for a replica that replicates nothing. Azure's show no state of replication,
    because they share their primary's storage.
    """
    if session.facts.hosting is Hosting.AZURE:
        return []
    try:
        late_ms = session.replica_lag_ms()
    except PrivilegeError:
        return []
    if late_ms is not None or not session.is_replica():
        return []
    sentence = (
        f"the server at {session.settings.address} is a replica whose replication does not run, so nothing new reaches its log; "
        f"see {session.replica_statement} there"
    )
    return [cited(sentence, session.facts.flavor, Topic.REPLICAS, session.facts.hosting)]


def _hours(time_s: float) -> str:
    return f"{time_s / _HOUR_S:.1f} h" if time_s >= _HOUR_S / 10 else f"{time_s:.0f} s"


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{count / 1e6:.1f} MB"  # noqa: PLR2004 - 0.1 GB
