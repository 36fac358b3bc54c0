"""Types of the copy functions; see _libpq.pyx."""

class ServerError(Exception):
    """An error of the server, or of the connection if ``sqlstate`` is empty."""

    sqlstate: str
    primary: str
    def __init__(self, sqlstate: str, primary: str) -> None: ...

class AlarmError(ServerError):
    """A notice for which an ``Alarm`` waits."""

class Alarm:
    """A watch for a notice with this SQLSTATE and this word in its text. Keep it as long as the
    connection.
    """

    def __init__(self, connection: int, state: bytes, word: bytes) -> None: ...

def received(connection: int, bytes_max: int, alarm: Alarm | None = None) -> tuple[bytes, bool]:
    """Return the copy messages that have arrived, each after its length (4 bytes, little-endian),
    and True if the server will send more. Never waits.
    """

def send(connection: int, message: bytes) -> None:
    """Put a copy message on a connection in COPY BOTH."""

def copied(connection: int, statement: bytes, bytes_max: int) -> tuple[bytes, int, int]:
    """Return (rows, number of rows, start of the last row or -1) of a COPY ... TO STDOUT. Rows
    beyond ``bytes_max`` (0: no limit) are dropped.
    """
