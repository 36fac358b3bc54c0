"""Which privileges are too many, by what SHOW GRANTS lists, and that the statements leave the connector what it needs."""

from dblog.dialects.mysql.wire.grants import superfluous
from dblog.model import TableId

CAPTURED = [TableId("shop", "orders"), TableId("o`dd", "t")]
MARKS = TableId("dblog", "watermark")


NAMED = [("shop", None), ("o`dd", "t")]


def found(*grants, named=NAMED, watermarks=MARKS, measures=()):
    return list(
        superfluous(
            grants, user="ann@10.%", status="BINLOG MONITOR", captured=CAPTURED, named=named, watermarks=watermarks, measures=measures
        )
    )


def test_what_the_readme_asks_for_is_not_too_much():
    assert found(
        "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO `ann`@`10.%`",
        "GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO `ann`@`10.%` IDENTIFIED BY PASSWORD '*canary'",
        "GRANT SELECT ON `shop`.* TO `ann`@`10.%`",
        "GRANT SELECT ON `o``dd`.`t` TO `ann`@`10.%`",
        r"GRANT SELECT, INSERT, UPDATE, CREATE ON `dblog`.* TO `ann`@`10.%`",
        "GRANT SELECT (`id`, `name`) ON `shop`.`orders` TO `ann`@`10.%`",
        "GRANT USAGE ON *.* TO `ann`@`10.%`",
        "GRANT SELECT ON `sh_p%`.* TO `ann`@`10.%`",
    ) == []  # fmt: skip


def test_each_privilege_beyond_that_has_its_revoke_and_nothing_secret_is_shown():
    account = "'ann'@'10.%'"
    assert found(
        "GRANT PROCESS, SUPER, REPLICATION CLIENT, REPLICATION SLAVE ON *.* TO `ann`@`10.%` IDENTIFIED BY PASSWORD '*canary'",
        "GRANT SELECT, DELETE ON `shop`.* TO `ann`@`10.%`",
        "GRANT SELECT ON `billing`.* TO `ann`@`10.%` WITH GRANT OPTION",
        "GRANT UPDATE (`a`, `b`) ON `shop`.`orders` TO `ann`@`10.%`",
        r"GRANT SELECT ON `sh\_p`.* TO `ann`@`10.%`",
        "GRANT `dba`@`%` TO `ann`@`10.%`",
    ) == [
        f"REVOKE PROCESS, SUPER ON *.* FROM {account};",
        f"REVOKE DELETE ON `shop`.* FROM {account};",
        f"REVOKE SELECT ON `billing`.* FROM {account};",
        f"REVOKE GRANT OPTION ON `billing`.* FROM {account};",
        f"REVOKE UPDATE (`a`, `b`) ON `shop`.`orders` FROM {account};",
        rf"REVOKE SELECT ON `sh\_p`.* FROM {account};",
        "-- the role `dba`@`%` is not examined: see its privileges with SHOW GRANTS FOR `dba`@`%`;",
    ]


def test_without_lists_the_whole_server_may_be_read_and_without_dumps_no_watermark_is_needed():
    assert found("GRANT SELECT, REPLICATION SLAVE ON *.* TO `ann`@`10.%`", named=[(None, None)]) == []
    assert found("GRANT INSERT ON `dblog`.* TO `ann`@`10.%`", watermarks=None) == ["REVOKE INSERT ON `dblog`.* FROM 'ann'@'10.%';"]


def test_what_a_revoke_would_take_from_the_connector_is_granted_first():
    account = "'ann'@'10.%'"
    marks = f"GRANT CREATE, SELECT, INSERT, UPDATE ON `dblog`.* TO {account};"
    read = [f"GRANT SELECT ON `shop`.* TO {account};", f"GRANT SELECT ON `o``dd`.`t` TO {account};"]

    assert found("GRANT SELECT, RELOAD, REPLICATION SLAVE, SUPER ON *.* TO `ann`@`10.%`", watermarks=None) == [
        f"GRANT BINLOG MONITOR ON *.* TO {account};",
        *read,
        f"REVOKE SELECT, RELOAD, SUPER ON *.* FROM {account};",
    ]
    assert found(
        "GRANT SELECT, INSERT ON *.* TO `ann`@`10.%`",
        "GRANT SELECT ON `sh%`.* TO `ann`@`10.%`",
        "GRANT SELECT, CREATE, UPDATE ON `dblog`.* TO `ann`@`10.%`",
    ) == [read[1], marks, f"REVOKE SELECT, INSERT ON *.* FROM {account};"]


def test_what_limits_of_dumps_are_measured_with_stays():
    grant = "GRANT PROCESS, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO `ann`@`10.%`"

    assert found(grant) == ["REVOKE PROCESS ON *.* FROM 'ann'@'10.%';"]
    assert found(grant, measures=["PROCESS"]) == []
    assert found("GRANT ALL PRIVILEGES ON *.* TO `ann`@`10.%`", measures=["PROCESS"])[-1].startswith(
        "GRANT REPLICATION SLAVE, BINLOG MONITOR, PROCESS ON"
    )


def test_all_goes_as_a_whole_and_what_is_needed_of_it_comes_again():
    account = "'ann'@'10.%'"

    assert found(
        "GRANT ALL PRIVILEGES ON *.* TO `ann`@`10.%` IDENTIFIED BY PASSWORD '*canary'",
        "GRANT ALL PRIVILEGES ON `dblog`.* TO `ann`@`10.%`",
        "GRANT ALL PRIVILEGES ON `billing`.* TO `ann`@`10.%`",
    ) == [
        f"GRANT SELECT ON `shop`.* TO {account};",
        f"GRANT SELECT ON `o``dd`.`t` TO {account};",
        f"REVOKE ALL PRIVILEGES ON *.* FROM {account};",
        f"GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO {account};",
        f"REVOKE ALL PRIVILEGES ON `dblog`.* FROM {account};",
        f"GRANT CREATE, SELECT, INSERT, UPDATE ON `dblog`.* TO {account};",
        f"REVOKE ALL PRIVILEGES ON `billing`.* FROM {account};",
    ]
    assert found("GRANT ALL PRIVILEGES ON *.* TO `ann`@`10.%`", named=[(None, None)], watermarks=None) == [
        f"REVOKE ALL PRIVILEGES ON *.* FROM {account};",
        f"GRANT SELECT, REPLICATION SLAVE, BINLOG MONITOR ON *.* TO {account};",
    ]


def test_names_are_granted_as_the_server_spells_them_and_tables_behind_a_pattern_by_their_database():
    granted = found("GRANT SELECT ON *.* TO `ann`@`10.%`", named=[("SHOP", "Orders"), (None, "nowhere"), ("later", None)], watermarks=None)

    assert [line.partition(" TO ")[0] for line in granted[:-1]] == [
        "GRANT SELECT ON `shop`.`orders`",
        "GRANT SELECT ON `later`.*",
        "GRANT SELECT ON `o``dd`.*",
    ]


def test_a_database_that_is_named_stays_readable_while_it_has_no_table():
    assert found("GRANT SELECT ON `later`.* TO `ann`@`10.%`", named=[*NAMED, ("later", None)]) == []


def test_nothing_is_taken_from_an_administrator():
    lines = found(
        "GRANT SELECT, SUPER ON *.* TO `ann`@`10.%` WITH GRANT OPTION",
        "GRANT BACKUP_ADMIN ON *.* TO `ann`@`10.%` WITH GRANT OPTION",
        "GRANT ALL PRIVILEGES ON `billing`.* TO `ann`@`10.%`",
    )

    assert [line.startswith("-- 'ann'@'10.%' may grant on the whole server") for line in lines] == [True]
