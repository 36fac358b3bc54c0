"""Which privileges are too many, by what SHOW GRANTS lists."""

from dblog.dialects.mysql.wire.grants import superfluous
from dblog.model import TableId

CAPTURED = [TableId("shop", "orders"), TableId("o`dd", "t")]
MARKS = TableId("dblog", "watermark")


def found(*grants, everything=False, watermarks=MARKS):
    return list(superfluous(grants, user="ann@10.%", captured=CAPTURED, watermarks=watermarks, everything=everything))


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
        "GRANT SELECT, SUPER, REPLICATION SLAVE ON *.* TO `ann`@`10.%` IDENTIFIED BY PASSWORD '*canary' WITH GRANT OPTION",
        "GRANT SELECT, DELETE ON `shop`.* TO `ann`@`10.%`",
        "GRANT SELECT ON `billing`.* TO `ann`@`10.%`",
        "GRANT UPDATE (`a`, `b`) ON `shop`.`orders` TO `ann`@`10.%`",
        r"GRANT SELECT ON `sh\_p`.* TO `ann`@`10.%`",
        "GRANT `dba`@`%` TO `ann`@`10.%`",
    ) == [
        f"REVOKE SELECT, SUPER ON *.* FROM {account};",
        f"REVOKE GRANT OPTION ON *.* FROM {account};",
        f"REVOKE DELETE ON `shop`.* FROM {account};",
        f"REVOKE SELECT ON `billing`.* FROM {account};",
        f"REVOKE UPDATE (`a`, `b`) ON `shop`.`orders` FROM {account};",
        rf"REVOKE SELECT ON `sh\_p`.* FROM {account};",
        "-- the role `dba`@`%` is not looked into: see what it brings with SHOW GRANTS FOR `dba`@`%`;",
    ]


def test_without_lists_the_whole_server_may_be_read_and_without_dumps_no_watermark_is_needed():
    assert found("GRANT SELECT, REPLICATION SLAVE ON *.* TO `ann`@`10.%`", everything=True) == []
    assert found("GRANT INSERT ON `dblog`.* TO `ann`@`10.%`", watermarks=None) == ["REVOKE INSERT ON `dblog`.* FROM 'ann'@'10.%';"]
