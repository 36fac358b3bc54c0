"""What servers and poolers say where they take no further connection, and what helps. libpq gives no SQLSTATE for a refused login."""

import psycopg2
import pytest
from dblog.dialects.connection_counts import most
from dblog.dialects.postgres.wire.connect import _not_connected, meaning, settings_of
from dblog.errors import NoConnectionsError, TransientError

OPTIONS = {"database.hostname": "db.ssl.example", "database.user": "reader", "database.dbname": "shop", "dblog.dump.threads": "4"}
BEFORE = 'connection to server at "db.ssl.example" (10.0.0.1), port 5432 failed: FATAL:  '


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("sorry, too many clients already", "raise max_connections"),
        ("remaining connection slots are reserved for non-replication superuser connections", "raise max_connections"),
        ("remaining connection slots are reserved for roles with the SUPERUSER attribute", "raise max_connections"),
        ('remaining connection slots are reserved for roles with privileges of the "pg_use_reserved_connections" role', "raise max_connections"),
        ('too many connections for role "reader"', 'ALTER ROLE "reader" CONNECTION LIMIT -1'),
        ('too many connections for database "shop"', 'ALTER DATABASE "shop" CONNECTION LIMIT -1'),
        ("number of requested standby connections exceeds max_wal_senders (currently 10)", "raise max_wal_senders"),
        ('number of requested standby connections exceeds "max_wal_senders" (currently 10)', "raise max_wal_senders"),
        ("no more connections allowed (max_client_conn)", "the limit of the pooler"),
        ("MaxClientsInSessionMode: max clients reached - in Session mode max clients are limited to pool_size", "the limit of the pooler"),
        ("Max client connections reached", "the limit of the pooler"),
    ],
)  # fmt: skip
def test_a_server_that_is_out_of_connections_is_waited_for_with_the_need_and_the_remedy(text, remedy):
    refused = _not_connected(psycopg2.OperationalError(f"{BEFORE}{text}\n"), settings_of(OPTIONS), again=False)

    assert isinstance(refused, NoConnectionsError)
    assert isinstance(refused, TransientError)
    assert f"is out of connections ({text}); this connector needs 2, and up to 11 while it starts or dumps: " in str(refused)
    assert remedy in str(refused)


def test_the_sqlstate_says_it_where_there_is_one_and_slots_have_a_setting_of_their_own():
    settings = settings_of(OPTIONS)

    assert "raise max_connections" in str(meaning("53300", "anything", settings, "asking"))
    assert isinstance(meaning("53300", None, settings, "asking"), NoConnectionsError)
    slots = meaning("53400", "all replication slots are in use", settings, "making the slot dbz")
    assert isinstance(slots, TransientError)
    assert "raise max_replication_slots there" in str(slots)


def test_the_most_connections_count_readers_and_measured_limits():
    assert most({}) == 5
    assert most({"snapshot.max.threads": "2"}) == 7
    assert most({"snapshot.max.threads": "2", "dblog.dump.threads": "4"}) == 11
    assert most({"dblog.dump.limit.threads.running": "10", "dblog.dump.limit.log.lag.ms": "10"}) == 6
