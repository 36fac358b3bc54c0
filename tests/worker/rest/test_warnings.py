"""What is accepted and probably not meant: logged and in a header, both of a bounded size."""

import re

import pytest
from dblog.cluster.remarks import Remarks
from dblog.rest.connectors import warn
from structlog.testing import capture_logs


def remarks_on(texts):
    return Remarks(doubts=tuple(texts))


def test_thousands_of_doubts_are_twenty_lines_and_a_count():
    with capture_logs() as lines:
        warn("shop", remarks_on([f"k{number}: no such key; it is ignored" for number in range(20_000)]))

    assert [line["reason"].split(":")[0] for line in lines[:-1]] == [f"k{number}" for number in range(20)]
    assert (lines[-1]["connector"], lines[-1]["more"]) == ("shop", 19_980)


def test_the_header_of_doubts_is_small_and_its_texts_are_whole():
    with capture_logs():
        header = warn("shop", remarks_on([f"k{number}: " + '"x' * 1000 for number in range(30)]))["Warning"]

    assert len(header) <= 2048
    assert header.count('299 dblog "') == 3
    assert header.endswith('x"')
    assert header.replace('\\"', "").count('"') == 6


def test_a_statement_in_the_header_has_the_quotes_that_the_server_takes():
    with capture_logs():
        header = warn("shop", remarks_on([r'run there: ALTER TABLE "a"."b" REPLICA IDENTITY FULL; or \x']))["Warning"]

    assert header == r'299 dblog "run there: ALTER TABLE \"a\".\"b\" REPLICA IDENTITY FULL; or \\x"'


@pytest.mark.parametrize("before", range(4))
def test_no_cut_parts_an_escaped_character(before):
    with capture_logs():
        header = warn("shop", remarks_on(["y" * before + '\\"' * 600]))["Warning"]

    inside = header.removeprefix('299 dblog "').removesuffix('"')
    assert re.fullmatch(r'(?:[^"\\]|\\.)*', inside)


def test_a_header_of_one_short_doubt_is_as_it_was_and_none_has_no_header():
    with capture_logs():
        assert warn("shop", remarks_on(["a: b"])) == {"Warning": '299 dblog "a: b"'}
        assert warn("shop", remarks_on([])) == {}


def test_an_ordinary_remark_has_another_code_and_never_takes_the_place_of_a_doubt():
    usual = tuple(f"u{number}: not set" for number in range(20))
    with capture_logs() as lines:
        header = warn("shop", Remarks(doubts=("a: b",), ordinary=usual))["Warning"]

    assert header.split(", ")[:2] == ['299 dblog "a: b"', '199 dblog "u0: not set"']
    assert (header.count("299 dblog"), header.count("199 dblog")) == (1, 9)
    assert lines[0]["reason"] == "a: b"
