"""By what a log is known to be another one than the log read so far, on servers that name themselves and on those that do not."""

from __future__ import annotations

import pytest
from dblog.dialects.mariadb.identity import why_other_gtids
from dblog.dialects.mysql.binlog.identity import FILE_BEGIN, KnownLog, LogEnd, why_other_log


def known(
    *, server: str | None = "a", file: str = "binlog.000005", pos: int = 500, gtids: str | None = None, all_sources: bool = True
) -> KnownLog:
    return KnownLog(server=server, file=file, pos=pos, gtids=gtids, all_sources=all_sources)


@pytest.mark.parametrize(
    ("server", "file", "pos", "why"),
    [
        ("a", "binlog.000005", 500, None),
        ("a", "binlog.000005", 501, None),
        ("a", "binlog.1000000", 4, None),
        ("b", "binlog.000009", 500, "the server is b"),
        ("a", "other.000009", 500, "log files are called other, those read so far binlog"),
        ("a", "binlog.000004", 9000, "log ends at binlog.000004:9000, before binlog.000005:500"),
        ("a", "binlog.000005", 499, "log ends at binlog.000005:499"),
    ],
)
def test_a_log_is_known_by_its_server_its_name_and_an_end_that_never_falls(server: str, file: str, pos: int, why: str | None) -> None:
    reason = why_other_log(known(), LogEnd(server=server, file=file, pos=pos))

    assert reason is None if why is None else why in str(reason)


def test_an_offset_that_names_no_server_is_judged_by_the_rest() -> None:
    assert why_other_log(known(server=None), LogEnd(server="b", file="binlog.000006", pos=4)) is None
    assert why_other_log(known(server=None), LogEnd(server="b", file="binlog.000001", pos=4)) is not None


@pytest.mark.parametrize(
    ("ours", "theirs", "same"),
    [
        ("0-1-100", "0-1-100", True),
        ("0-1-100,5-2-7", "0-1-100", True),  # a domain may be deleted from the log
        ("0-1-100", "0-1-99", False),
        ("0-1-100", "0-1-101", False),
        ("0-1-100", "0-2-100", False),
        ("0-1-100", "5-1-100", False),
        ("0-1-100", "", False),
        ("0-1-100", None, False),
        (None, "0-9-9", True),
    ],
)
def test_mariadb_servers_of_one_id_are_distinguished_by_the_gtids_at_a_position(ours: str | None, theirs: str | None, same: bool) -> None:
    assert (why_other_gtids(known(gtids=ours), theirs) is None) is same


def test_at_the_begin_of_a_file_and_with_sources_passed_over_the_gtids_may_be_ahead() -> None:
    begin = known(pos=FILE_BEGIN, gtids="0-1-100")

    assert why_other_gtids(begin, "0-1-7") is None
    assert why_other_gtids(begin, "") is None
    assert why_other_gtids(begin, "0-1-101") is not None
    assert why_other_gtids(known(gtids="0-1-100", all_sources=False), "0-1-7") is None
    assert why_other_gtids(known(gtids="0-1-100", all_sources=False), "0-1-101") is not None
