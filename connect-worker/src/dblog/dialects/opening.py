"""The warning in a task's status that the server has no connection left, shown for as long as that
lasts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from dblog.errors import NoConnectionsError
from dblog.readers.standing_warnings import StandingWarnings

log = structlog.get_logger(__name__)

NO_CONNECTIONS = "no connections left"
"""The key of the standing warning."""


class Opening:
    """A context manager around opening any connection of one task. Any thread may use it; retrying
    a refused connection is left to the caller.
    """

    def __init__(self, warnings: StandingWarnings) -> None:
        self._warnings = warnings
        self._refused: str | None = None

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Raise the warning if the server refuses a connection because it has none left; withdraw
        it on the next success.
        """
        try:
            yield
        except NoConnectionsError as e:
            if self._refused is None:
                log.warning("the server is out of connections", reason=str(e))
            self._refused = str(e)
            self._warnings.raise_warning(NO_CONNECTIONS, str(e))
            raise
        if self._refused is not None:
            self._refused = None
            self._warnings.withdraw(NO_CONNECTIONS)
