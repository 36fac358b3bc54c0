"""Helpers for tests of a session, which do on its connections what a task does."""

from dblog.dialects.mysql.wire.dump import DumpConnection
from dblog.dialects.mysql.wire.session import Session
from dblog.model import TableId


def open_dump(session: Session, watermarks: TableId) -> DumpConnection:
    """Open connections for chunks and watermarks to the session's server.

    ``watermarks`` is the watermark table.
    """
    return DumpConnection.open(session.settings, watermarks, server=session.identity)
