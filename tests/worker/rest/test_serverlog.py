"""The HTTP server's own lines."""

import asyncio
import logging

import pytest
from dblog.rest.serverlog import take_server_log
from structlog.testing import capture_logs


@pytest.fixture
def taken():
    """The server's lines are ours for a test."""
    loggers = [logging.getLogger(name) for name in ("uvicorn.error", "asyncio")]
    before = [(logger.handlers, logger.propagate) for logger in loggers]
    take_server_log()
    yield loggers
    for logger, (handlers, propagate) in zip(loggers, before, strict=True):
        logger.handlers, logger.propagate = handlers, propagate


def test_what_the_http_server_reports_is_a_line_of_the_workers_log(taken, capfd):
    fault = ValueError("a fault")
    with capture_logs() as lines:
        for logger in taken:
            logger.warning("Invalid HTTP request received.")
            logger.error("Exception in ASGI application\n", exc_info=fault)
            logger.info("Started")

    refused = {"event": "rest server", "log_level": "warning", "reason": "Invalid HTTP request received."}
    failed = {"event": "rest server", "log_level": "error", "reason": "Exception in ASGI application", "exc_info": fault}
    assert lines == [refused, failed, refused, failed]
    assert capfd.readouterr() == ("", "")


def test_a_request_that_the_server_cuts_off_leaves_no_trace(taken):
    with capture_logs() as lines:
        taken[0].error("Exception in ASGI application", exc_info=asyncio.CancelledError("cut"))

    assert lines == []
