"""A task's connections while they are opened: the status shows for as long as it is so that the server has none left."""

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
    """One task's. Any thread may open a connection inside; what is refused is tried again by whoever needs it."""

    def __init__(self, warnings: StandingWarnings) -> None:
        self._warnings = warnings
        self._refused: str | None = None

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Raise the warning where what is done inside finds no connection left; withdraw it where it succeeds."""
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
