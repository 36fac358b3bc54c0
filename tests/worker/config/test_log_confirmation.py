"""Whether the server learns what is stored: lsn.flush.mode, and flush.lsn.source where that is not set."""

import pytest
from dblog.config.connector import POSTGRES_OPTIONS, parse_connector
from dblog.config.log_confirmation import confirms_log
from support.worker import postgres_config


@pytest.mark.parametrize(
    ("given", "confirms"),
    [
        ({}, True),
        ({"lsn.flush.mode": "connector"}, True),
        ({"lsn.flush.mode": "connector_and_driver"}, True),
        ({"lsn.flush.mode": " Manual"}, False),
        ({"flush.lsn.source": "false"}, False),
        ({"flush.lsn.source": "true"}, True),
        ({"lsn.flush.mode": "connector", "flush.lsn.source": "false"}, True),
        ({"lsn.flush.mode": "manual", "flush.lsn.source": "true"}, False),
    ],
)
def test_the_newer_key_decides_and_the_older_one_without_it(given, confirms):
    assert confirms_log(parse_connector(POSTGRES_OPTIONS, postgres_config(name="a") | given)) is confirms
