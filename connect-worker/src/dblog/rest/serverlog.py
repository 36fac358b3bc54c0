"""Writes messages of the HTTP server and the event loop to the worker's own log."""

from __future__ import annotations

import asyncio
import logging

import structlog

_log = structlog.get_logger("dblog.rest")

_LOGGERS = ("uvicorn.error", "asyncio")


class _ServerLog(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        raised = record.exc_info[1] if record.exc_info else None
        if isinstance(raised, asyncio.CancelledError):
            # The server has cut off a client that did not take its answer, and reports that itself.
            return
        write = _log.error if record.levelno >= logging.ERROR else _log.warning
        write("rest server", reason=record.getMessage().strip(), **({"exc_info": raised} if raised is not None else {}))


def take_server_log() -> None:
    """Redirect the server's loggers.

    Without this Python writes their lines to standard error unformatted.
    """
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers = [_ServerLog(logging.WARNING)]
        logger.propagate = False
