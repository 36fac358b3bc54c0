"""SQL text is cut as the servers cut it."""

from __future__ import annotations

import time

import pytest
from dblog.dialects.mysql.ddl.conditions import fault_of
from dblog.dialects.mysql.ddl.lexer import Cursor, Kind, LexerMode, NotUnderstood, tokenize
from hypothesis import given
from hypothesis import strategies as st


def cut(text: str, **mode) -> list[tuple[str, str]]:
    return [(token.kind.name, token.text) for token in tokenize(text, LexerMode(**mode))]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("a `b``c` 'd''e' \"f\"\"g\"", [("WORD", "a"), ("QUOTED", "b`c"), ("STRING", "d'e"), ("STRING", 'f"g')]),
        (r"'\n\'\\\%\x'", [("STRING", "\n'\\\\%x")]),
        ("1 1.5 .5 1e5 1st 0x1F 0b01 x'4a' b'10'", [("NUMBER", "1"), ("NUMBER", "1.5"), ("NUMBER", ".5"), ("NUMBER", "1e5"), ("WORD", "1st"),
                                                    ("HEX", "1F"), ("BITS", "01"), ("HEX", "4a"), ("BITS", "10")]),
        ("db.1t t.5a", [("WORD", "db"), ("OP", "."), ("WORD", "1t"), ("WORD", "t"), ("OP", "."), ("WORD", "5a")]),
        ("a/* x */b -- c\nd # e\nf --g", [("WORD", "a"), ("WORD", "b"), ("WORD", "d"), ("WORD", "f"), ("OP", "-"), ("OP", "-"), ("WORD", "g")]),
        ("N'é' @v @@g.x @'q'", [("STRING", "é"), ("VARIABLE", "@v"), ("VARIABLE", "@@g.x"), ("VARIABLE", "q")]),
        ("a:=b<=>c", [("WORD", "a"), ("OP", ":="), ("WORD", "b"), ("OP", "<=>"), ("WORD", "c")]),
        ("$a _b üñ", [("WORD", "$a"), ("WORD", "_b"), ("WORD", "üñ")]),
        ("'not closed", [("STRING", "not closed")]),
        ("a --\x7fb\nc --\xa0d", [("WORD", "a"), ("WORD", "c"), ("OP", "-"), ("OP", "-"), ("WORD", "\xa0d")]),
        ("@`\\` 'a' x'4 b'1", [("VARIABLE", "\\"), ("STRING", "a"), ("WORD", "x"), ("STRING", "4 b"), ("NUMBER", "1")]),
        (r"t.x'\'", [("WORD", "t"), ("OP", "."), ("WORD", "x"), ("STRING", "'")]),
        ("/* not closed", []),
    ],
)  # fmt: skip
def test_tokens(text: str, tokens: list[tuple[str, str]]) -> None:
    assert cut(text) == tokens


def test_sql_modes_change_what_quotes_and_backslashes_mean() -> None:
    assert cut('"a"', ansi_quotes=True) == [("QUOTED", "a")]
    assert cut(r"'a\' b", backslash_escapes=False) == [("STRING", "a\\"), ("WORD", "b")]


@pytest.mark.parametrize(
    ("text", "mysql", "mariadb"),
    [
        ("/*! a */", "a", "a"),
        ("/*!50100 a */ b", "a b", "a b"),
        ("/*!80023 a */ b", "a b", "b"),
        ("/*!99999 a /* x */ y */ b", "b", "b"),
        ("/*M! a */ b", "b", "a b"),
        ("/*M!100301 a */ b", "b", "a b"),
        ("/*M!120000 a */ b", "b", "b"),
        ("/*!100100 a */ b", "b", "a b"),
        ("/*! a /* c */ b */ c", "a b c", "a b c"),
        ("/*!a*/", "a", "a"),
    ],
)
def test_version_comments_are_text_for_the_servers_they_name(text: str, mysql: str, mariadb: str) -> None:
    assert " ".join(token for _, token in cut(text, version=90700)) == mysql
    assert " ".join(token for _, token in cut(text, mariadb=True, version=101106)) == mariadb


@given(st.text(max_size=80), st.booleans())
def test_every_text_is_cut_into_tokens_that_lie_in_order(text: str, mariadb: bool) -> None:
    tokens = tokenize(text, LexerMode(mariadb=mariadb))

    ends = [0]
    for token in tokens:
        assert ends[-1] <= token.start < token.end <= len(text)
        ends.append(token.end)


def test_a_cursor_ends_at_the_end_without_going_beyond_it() -> None:
    cursor = Cursor(tokenize("a (b", LexerMode()), "a (b")

    assert cursor.take("A")
    with pytest.raises(NotUnderstood):
        cursor.skip_group()
    assert cursor.ended
    assert cursor.next.kind is Kind.OP
    assert cursor.location == "the end"


def test_comments_and_strings_of_megabytes_are_passed_in_a_moment() -> None:
    began = time.process_time()

    text = (
        "a /*"
        + "x" * 2_000_000
        + "*/ '"
        + "y" * 2_000_000
        + "' `"
        + "z" * 2_000_000
        + "` /*M!999999 "
        + "/*" * 200_000
        + "*/" * 200_001
        + " b"
    )
    found = cut(text)

    assert [(kind, len(value)) for kind, value in found] == [("WORD", 1), ("STRING", 2_000_000), ("QUOTED", 2_000_000), ("WORD", 1)]
    assert time.process_time() - began < 1


def test_no_more_tokens_are_cut_than_are_asked_for() -> None:
    tokens = tokenize("a, " * 1_000_000, LexerMode(), tokens_max=3)

    assert [token.text for token in tokens] == ["a", ",", "a"]


@pytest.mark.parametrize("where", ["/*", "a = 'x", "a = `x", "@`x", "# a", "a = 1 --\x7f", "a = '\\'", "a = '\0'", "t.x'\\' = 1"])
def test_a_condition_that_does_not_end_where_its_text_does_is_refused(where: str) -> None:
    assert fault_of(where) is not None


@pytest.mark.parametrize(
    "where", ["a = 'x\\'' AND b = \"'\"", "`a\\` = 1 AND @`v\\` = 2", "a = X'4a' OR b = n'x' -b'1'", "a = 1 --1", "é\xa0 = ' -- '"]
)
def test_a_condition_is_taken(where: str) -> None:
    assert fault_of(where) is None
