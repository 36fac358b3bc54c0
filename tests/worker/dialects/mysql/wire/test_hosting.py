"""Whose server it is by its variables, and how a variable is set there."""

import pytest
from dblog.dialects.guide import Hosting
from dblog.dialects.mysql.wire.hosting import hosting_of, how_to_set

OWN = {"version": "8.4.3", "basedir": "/usr/", "datadir": "/var/lib/mysql/", "tmpdir": "/var/lib/mysql-tmp"}


@pytest.mark.parametrize(
    ("more", "hosting"),
    [
        ({}, Hosting.SELF),
        ({"datadir": "/rdsdbdata/db/"}, Hosting.RDS),
        ({"datadir": "/rdsdbdata/db/", "aurora_version": "3.08.0"}, Hosting.AURORA),
        ({"version": "8.0.37-google"}, Hosting.CLOUD_SQL),
        ({"version": "8.0.37-azure"}, Hosting.AZURE),
        ({"tmpdir": "/mnt/temp"}, Hosting.AZURE),
    ],
)
def test_variables_show_whose_server_it_is(more: dict[str, str], hosting: Hosting):
    assert hosting_of({**OWN, **more}, "10.0.0.3") is hosting


def test_a_server_whose_variables_show_nothing_is_known_by_its_name():
    assert hosting_of(OWN, "shop.abc.eu-west-1.rds.amazonaws.com") is Hosting.RDS


def test_a_variable_is_set_by_the_means_of_who_runs_the_server():
    own = how_to_set(Hosting.SELF, "binlog_row_image", "FULL")

    assert own == "run: SET GLOBAL binlog_row_image = 'FULL'; (and set it in the server's configuration)"
    assert "= 604800;" in how_to_set(Hosting.SELF, "binlog_expire_logs_seconds", "604800")
    others = [how_to_set(hosting, "binlog_row_image", "FULL") for hosting in Hosting if hosting is not Hosting.SELF]
    assert [text for text in others if "SET GLOBAL" in text or "binlog_row_image=FULL" not in text] == []
