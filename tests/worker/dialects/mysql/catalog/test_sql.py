"""Statements: what a ladder selects is checked by running it against plain tuples; servers run the same in tests/integration."""

from __future__ import annotations

import itertools
import re

import pytest
from dblog.dialects.mysql.catalog import sql
from dblog.dialects.mysql.ddl.lexer import Kind, LexerMode, tokenize
from dblog.errors import DefiniteError, UnknownKeyError
from dblog.model import Column, Table, TableId
from hypothesis import given
from hypothesis import strategies as st


def integer(name: str) -> Column:
    return Column(name=name, type="int", type_text="int", nullable=False)


def text(name: str, charset: str | None, collation: str | None) -> Column:
    return Column(name=name, type="varchar", type_text="varchar(10)", nullable=False, charset=charset, collation=collation)


def enum(name: str, *members: str) -> Column:
    return Column(
        name=name, type="enum", type_text="enum", nullable=False, members=members, charset="latin1", collation="latin1_swedish_ci"
    )


def a_table(*columns: Column, key: tuple[str, ...], primary_key: bool = True) -> Table:
    return Table(id=TableId("shop", "order items"), columns=columns, key=key, primary_key=primary_key)


def condition_of(statement: str) -> str:
    return re.search(r" WHERE (.*) ORDER BY ", statement)[1]


def selects(condition: str, parameters: tuple, row: dict[str, int]) -> bool:
    """The condition's value for a row of integers, evaluated by Python."""
    values = iter(parameters)
    expression = re.sub(r"\?", lambda _: str(next(values)), condition)
    expression = re.sub(r"`(\w+)`", lambda m: str(row[m[1]]), expression)
    expression = re.sub(r"(?<![<>])=", "==", expression).replace("AND", "and").replace("OR", "or")
    return bool(eval(expression))  # noqa: S307 - made above of numbers and comparisons


@pytest.mark.parametrize("width", [1, 2, 3])
def test_bounds_select_exactly_the_keys_between_them(width):
    names = ("a", "b", "c")[:width]
    table = a_table(*map(integer, names), integer("v"), key=names)
    keys = list(itertools.product(range(3), repeat=width))

    for after, upto in itertools.product([None, *keys], repeat=2):
        if after is None and upto is None:
            continue
        statement, parameters = sql.chunk_select(table, after, upto, 7)
        assert parameters[-1] == 7
        selected = [key for key in keys if selects(condition_of(statement), parameters[:-1], dict(zip(names, key, strict=True)))]
        assert selected == [key for key in keys if (after is None or key > after) and (upto is None or key <= upto)]


@pytest.mark.parametrize("width", [1, 2, 3])
def test_rows_are_selected_by_exactly_their_keys(width):
    names = ("a", "b", "c")[:width]
    table = a_table(*map(integer, names), integer("v"), key=names)
    keys = list(itertools.product(range(3), repeat=width))

    for some in ([keys[0]], keys[1::2], [*keys[:2], keys[1]]):
        statement, parameters = sql.rows_by_key(table, some)
        condition, _, order = statement.partition(" WHERE ")[2].partition(" ORDER BY ")
        assert order == ", ".join(f"`{name}`" for name in names)
        assert [key for key in keys if selects(condition, parameters, dict(zip(names, key, strict=True)))] == sorted({*some})


def test_a_chunk_names_every_column_in_order_and_is_ordered_by_the_key():
    hidden = Column(name="h", type="int", type_text="int", nullable=True, invisible=True)
    generated = Column(name="g", type="int", type_text="int", nullable=True, generated=True)
    table = a_table(integer("v"), hidden, integer("k"), generated, integer("j"), key=("k", "j"))

    assert sql.chunk_select(table, None, None, 10) == (
        "SELECT `v`, `h`, `k`, `g`, `j` FROM `shop`.`order items` FORCE INDEX (PRIMARY) ORDER BY `k`, `j` LIMIT ?",
        (10,),
    )
    assert sql.max_key(table) == (
        "SELECT `k`, `j` FROM `shop`.`order items` FORCE INDEX (PRIMARY) ORDER BY `k` DESC, `j` DESC LIMIT 1",
        (),
    )
    assert sql.key_indexes(table) == (2, 4)


def test_the_last_key_of_a_chunk_is_asked_for_where_a_text_in_utf8_does_not_state_it():
    text = Column(name="t", type="varchar", type_text="varchar(9)", nullable=False, charset="sjis", collation="sjis_bin")
    number = Column(name="e", type="enum", type_text="enum('a')", nullable=False, charset="sjis", collation="sjis_bin", members=("a",))
    table = a_table(integer("v"), text, number, integer("k"), key=("k", "t", "e"))

    statement = sql.last_key(table, None, (1, b"\xf0\x40", 1), 10)

    one_byte = Column(name="t", type="varchar", type_text="varchar(9)", nullable=False, charset="latin1", collation="latin1_bin")
    assert sql.exact_key(a_table(integer("k"), one_byte, key=("t", "k")), ("é€", 1)) == (b"\xe9\x80", 1)
    assert sql.exact_key(a_table(integer("k"), one_byte, key=("t", "k")), ("?", 1)) is None
    assert sql.exact_key(table, (1, "a", "a")) is None
    assert statement[0].startswith(
        "SELECT `k`, CAST(`t` AS BINARY), CAST(`e` AS UNSIGNED) FROM `shop`.`order items` FORCE INDEX (PRIMARY) WHERE "
    )
    assert (statement[0][-33:], statement[1][-2:]) == ("ORDER BY `k`, `t`, `e` LIMIT ? OFFSET ?"[-33:], (1, 9))


def test_a_table_without_a_primary_key_has_no_index_to_force():
    table = a_table(integer("k"), key=("k",), primary_key=False)

    assert "FORCE INDEX" not in sql.chunk_select(table, None, None, 10)[0]


def test_a_keyless_table_is_scanned_and_never_asked_for_by_ranges():
    table = a_table(integer("v"), key=())

    assert sql.full_scan(table, 11) == ("SELECT `v` FROM `shop`.`order items` LIMIT ?", (11,))
    with pytest.raises(AssertionError, match="has no key"):
        sql.chunk_select(table, None, None, 10)


@pytest.mark.parametrize(
    ("column", "watermark"),
    [
        (text("k", "latin1", "latin1_german2_ci"), "CONVERT(? USING `latin1`) COLLATE `latin1_german2_ci`"),
        (text("k", "utf8mb4", "utf8mb4_0900_ai_ci"), "CONVERT(? USING `utf8mb4`) COLLATE `utf8mb4_0900_ai_ci`"),
        (text("k", "utf8mb3", "utf8mb3_bin"), "CONVERT(? USING `utf8mb3`) COLLATE `utf8_bin`"),
        (text("k", "utf8mb3", "utf8mb3_uca1400_ai_ci"), "CONVERT(? USING `utf8mb3`) COLLATE `utf8mb3_uca1400_ai_ci`"),
        (text("k", "latin1", None), "CONVERT(? USING `latin1`)"),
        (text("k", "x`) OR (1", "y` z"), "CONVERT(? USING `x``) OR (1`) COLLATE `y`` z`"),  # number 31 of the worker's safety
        (text("k", None, None), "?"),
        (text("k", "binary", "binary"), "?"),
        (integer("k"), "?"),
    ],
)
def test_a_bound_takes_charset_and_collation_of_its_column(column, watermark):
    statement, _ = sql.chunk_select(a_table(column, key=("k",)), ("x",), None, 10)

    assert condition_of(statement) == f"(`k` > {watermark})"


def test_bounds_of_an_enum_follow_its_numbers():
    table = a_table(enum("e", "z", "y", "x"), integer("n"), key=("e", "n"))
    watermark = "CONVERT(? USING `latin1`) COLLATE `latin1_swedish_ci`"

    after, after_values = sql.chunk_select(table, ("z", 5), None, 10)
    last, last_values = sql.chunk_select(table, ("x", 5), None, 10)
    upto, upto_values = sql.chunk_select(table, None, ("y", 5), 10)
    error, error_values = sql.chunk_select(table, ("", 5), None, 10)

    assert (condition_of(after), after_values) == (
        f"((`e` IN ({watermark}, {watermark})) OR (`e` = {watermark} AND `n` > ?))",
        ("y", "x", "z", 5, 10),
    )
    assert (condition_of(last), last_values) == (f"(`e` = {watermark} AND `n` > ?)", ("x", 5, 10))
    assert (condition_of(upto), upto_values) == (f"((`e` < ?) OR (`e` = {watermark} AND `n` <= ?))", (2, "y", 5, 10))
    assert (condition_of(error), error_values) == ("((`e` > ?) OR (`e` = ? AND `n` > ?))", (0, 0, 5, 10))


def test_behind_the_last_member_of_an_enum_nothing_is_left():
    table = a_table(enum("e", "z", "y"), key=("e",))

    assert condition_of(sql.chunk_select(table, ("y",), None, 10)[0]) == "(1 = 0)"


def test_long_enums_are_compared_by_number():
    table = a_table(enum("e", *(f"m{i}" for i in range(1000))), key=("e",))

    assert sql.chunk_select(table, ("m3",), None, 10)[1] == (4, 10)


def test_bounds_of_a_set_are_its_bits():
    column = Column(name="s", type="set", type_text="set", nullable=False, members=("a", "b", "c"), charset="latin1")
    table = a_table(column, key=("s",))

    assert [sql.chunk_select(table, (value,), None, 10)[1][0] for value in ("", "a", "c", "a,c")] == [0, 1, 4, 5]


def test_the_number_of_an_unknown_member_is_no_bound():
    table = a_table(enum("e", "a"), key=("e",))
    for statement in (sql.chunk_select(table, (1,), None, 10), sql.key_lookup(table, (0,), None)):
        assert statement
    for ask in (lambda: sql.chunk_select(table, (2,), None, 10), lambda: sql.chunk_select(table, None, (2,), 10)):
        with pytest.raises(UnknownKeyError, match="definition lacks"):
            ask()


def test_an_unknown_member_is_reported_and_not_shown():
    with pytest.raises(DefiniteError, match="definition lacks") as caught:
        sql.chunk_select(a_table(enum("e", "a"), key=("e",)), ("secret",), None, 10)

    assert "secret" not in str(caught.value)


def test_identifiers_and_texts_are_quoted():  # number 31 of the worker's safety
    assert sql.quote_table(TableId("a`b", "select")) == "`a``b`.`select`"
    assert sql.quote_text("it's \\") == r"'it''s \\'"
    assert sql.account("o'neil@x@10.%") == "'o''neil@x'@'10.%'"


HOSTILE_NAMES = (
    "a`b", 'a"b', "a'b", "`", "``", '"', "a;drop", "a;DROP TABLE t;-- ", "back\\slash", "end\\", "new\nline", "nul\0", "\U0001f600", "\u00b4",
    "x" * 64, "%s", "%(a)s", "%", "?", "wa?ter", "a.b", "a b", "*/", "/*!50000 a */", "#", "--", "@a", "1", "select", "",
)  # fmt: skip
LEXER_MODES = [
    LexerMode(ansi_quotes=ansi, backslash_escapes=backslash, mariadb=mariadb)
    for ansi, backslash, mariadb in itertools.product((False, True), repeat=3)
]


def names(statement: str, mode: LexerMode) -> list[str]:
    """All that is quoted as a name."""
    return [token.text for token in tokenize(statement, mode) if token.kind is Kind.QUOTED]


def check_quoted(name: str) -> None:
    id_ = TableId(name, name[::-1])
    for mode in LEXER_MODES:
        assert names(sql.quote(name), mode) == [name]
        assert names(f"ALTER TABLE {sql.quote_table(id_)} ADD {sql.quote(name)} INT", mode) == [name, name[::-1], name]
        assert [token.text for token in tokenize(f"DROP TABLE {sql.quote_table(id_)}, t", mode)][-2:] == [",", "t"]
        assert names(sql.write_watermark(id_) % ("1", "2", "3"), mode) == [name, name[::-1]]
        assert names(sql.read_watermark(id_) % "1", mode) == [name, name[::-1]]


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_a_hostile_name_is_quoted_as_one_name_and_nothing_else(name):
    check_quoted(name)


@given(st.text(alphabet=st.one_of(st.sampled_from("`\"'\\;%?s()*/-#@. \n\0a"), st.characters(exclude_categories=["Cs"])), max_size=64))
def test_any_name_is_quoted_as_one_name_and_nothing_else(name):
    check_quoted(name)


@pytest.mark.parametrize("name", ["watermark", "", ".", "a.", ".b"])
def test_a_watermark_table_needs_a_database(name):
    with pytest.raises(DefiniteError, match=r"database\.table"):
        sql.parse_table_name(name)


def test_the_name_of_a_watermark_table_is_cut_at_its_first_dot():
    assert sql.parse_table_name("dblog.water.watermark") == TableId("dblog", "water.watermark")
