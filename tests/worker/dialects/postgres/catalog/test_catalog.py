"""What the catalogs' rows mean, and the statements about rows."""

from __future__ import annotations

import pytest
from dblog.dialects.postgres.catalog import conditions, sql
from dblog.dialects.postgres.catalog.overrides import condition_of
from dblog.dialects.postgres.catalog.tables import default_of, key_of
from dblog.dialects.postgres.catalog.types import Types, modifier_of
from dblog.errors import DefiniteError, UnknownKeyError
from dblog.model import Column, Index, Table, TableId

T = TableId("public", "t")


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        (None, (False, None, False)),
        ("'abc'::character varying", (True, "abc", False)),
        ("'it''s'::text", (True, "it's", False)),
        ("''::text", (True, "", False)),
        (r"E'a\\b'::text", (True, r"E'a\\b'::text", True)),
        ("0", (True, "0", False)),
        ("'-1'::integer", (True, "-1", False)),
        ("(-1)", (True, "-1", False)),
        ("1.50", (True, "1.50", False)),
        ("true", (True, "true", False)),
        ("NULL::character varying", (True, None, False)),
        ("now()", (True, "now()", True)),
        ("nextval('t_id_seq'::regclass)", (True, "nextval('t_id_seq'::regclass)", True)),
        ("('a'::text || 'b'::text)", (True, "('a'::text || 'b'::text)", True)),
    ],
)
def test_a_default_is_its_literal_or_an_expression(expression, found):
    assert default_of(expression) == found


@pytest.mark.parametrize(
    ("name", "modifier", "found"),
    [
        ("numeric", -1, (None, None)),
        ("numeric", (10 << 16 | 2) + 4, (10, 2)),
        ("numeric", (5 << 16 | (-3 & 0x7FF)) + 4, (5, -3)),
        ("varchar", 44, (40, None)),
        ("bpchar", 14, (10, None)),
        ("bit", 8, (8, None)),
        ("timestamptz", 3, (3, None)),
        ("interval", 0x7FFF0002, (2, None)),
        ("interval", 0x0004FFFF, (None, None)),
        ("vector", 3, (3, None)),
        ("text", 5, (None, None)),
    ],
)
def test_a_modifier_is_taken_apart_by_its_type(name, modifier, found):
    assert modifier_of(name, modifier) == found


def types() -> Types:
    found = Types()
    found.add(
        [
            (23, "pg_catalog", "int4", "b", 0, 0, -1, "N"),
            (1007, "pg_catalog", "_int4", "b", 23, 0, -1, "A"),
            (1043, "pg_catalog", "varchar", "b", 0, 0, -1, "S"),
            (900, "public", "short", "d", 0, 1043, 14, "S"),
            (901, "public", "shorter", "d", 0, 900, -1, "S"),
            (902, "public", "mood", "e", 0, 0, -1, "E"),
            (903, "public", "_mood", "b", 902, 0, -1, "A"),
            (904, "public", "pair", "c", 0, 0, -1, "C"),
            (905, "else", "hstore", "b", 0, 0, -1, "U"),
            (906, "public", "strange", "b", 0, 0, -1, "U"),
            (907, "public", "_short", "b", 900, 0, -1, "A"),
        ],
        [(902, "sad"), (902, "glad")],
    )
    return found


@pytest.mark.parametrize(
    ("number", "type_", "length", "members"),
    [
        (23, "int4", None, ()),
        (1007, "_int4", None, ()),
        (900, "varchar", 10, ()),
        (901, "varchar", 10, ()),
        (902, "enum", None, ("sad", "glad")),
        (903, "_enum", None, ("sad", "glad")),
        (904, "composite", None, ()),
        (905, "hstore", None, ()),
        (906, "public.strange", None, ()),
        (907, "_varchar", None, ()),
        (999, "type 999", None, ()),
    ],
)
def test_domains_are_resolved_and_types_of_nobody_named_with_their_schema(number, type_, length, members):
    found = types().column(Column(name="c", type="", type_text="x", nullable=True), number, -1)

    assert (found.type, found.length, found.members) == (type_, length, members)


def column(name: str, type_: str = "int4", *, nullable: bool = False) -> Column:
    return Column(name=name, type=type_, type_text=type_, nullable=nullable)


def test_a_key_is_the_primary_key_else_the_first_unique_index_without_null():
    columns = (column("a"), column("b", nullable=True), column("c"))
    by_b, by_c = Index(name="by_b", columns=("b",), unique=True), Index(name="by_c", columns=("c",), unique=True)
    primary = Index(name="PRIMARY", columns=("c", "a"), unique=True)

    assert key_of(columns, (primary, by_b, by_c)) == (("c", "a"), True)
    assert key_of(columns, (by_c, primary)) == (("c",), False), "the replica identity stands in front of the primary key"
    assert key_of(columns, (by_b, by_c)) == (("c",), False)
    assert key_of(columns, (by_b, Index(name="f", columns=("a",), unique=True, functional=True))) == ((), False)


TABLE = Table(id=TableId("public", 'a "t"'), columns=(column("id"), column("Name", "varchar")), key=("id", "Name"))


def test_a_chunk_is_the_range_behind_a_key_up_to_another_whatever_their_values_are():
    text, whole = sql.chunk_select(TABLE, (1, "it's"), (2, "\\"), 10, where="id > 5 -- yes")

    assert text == (
        'SELECT "id", "Name" FROM ONLY "public"."a ""t""" WHERE ("id", "Name") OPERATOR(pg_catalog.>) '
        '(\'1\'::pg_catalog."int4", \'it\'\'s\'::pg_catalog."varchar") AND ("id", "Name") OPERATOR(pg_catalog.<=) '
        '(\'2\'::pg_catalog."int4", \'\\\'::pg_catalog."varchar") AND (\nid > 5 -- yes\n) ORDER BY "id", "Name" LIMIT 10'
    )
    assert whole == (True, False)


def test_a_bound_with_more_values_than_the_key_has_columns_is_refused():
    with pytest.raises(UnknownKeyError):
        sql.chunk_select(TABLE, (1,), None, 10)
    with pytest.raises(DefiniteError, match="zero byte"):
        sql.chunk_select(TABLE, (1, "a\0"), None, 10)


@pytest.mark.parametrize(
    "where",
    [
        "id = 1", "a = ';' AND (b = 1)", "name = '(' OR ';--' = name", '"--" = 1', r"name LIKE'\'", r"name LIKE '\_%' AND e.name = 'é'", "a$b = 1",
        "n'x' = name", "b'01' = x'1'::bit(2)", "v > 1.5e-3 OR v = .5 OR v = 1_000 OR v = 0x1F", "note ~ 'a$' AND date'2024-01-01' < day", "é$1 = 'it''s'",
    ],
)  # fmt: skip
def test_a_condition_is_taken(where):
    assert conditions.fault_of(where) is None


@pytest.mark.parametrize(
    ("where", "why"),
    [
        (" ", "empty"),
        ("1); DROP TABLE t; --", "bracket"),
        ("a = 1; SELECT 1", "semicolon"),
        ("a = 1 -- so", "comment"),
        ("a = 1 /* so */", "comment"),
        ("a = 'x", "quotes"),
        ('a = "x', "quotes"),
        ("(a = 1", "opens"),
        ("x" * 10_001, "characters"),
        (r"E'\'' = name", "an escape string"),
        (r"pg_catalog.e'\'' = name", "an escape string"),
        (r"a = 1E'\''", "a number before quotes"),
        ("name = $$x$$", "a dollar"),
        ("a = $1", "a dollar"),
        ("a = 1$a$", "a dollar"),
        ("U&'x' = name", "a text by the numbers of its characters"),
        ('u&"x" = name', "a text by the numbers of its characters"),
        ("(SELECT true AS a$b$)) LIMIT 0) TO STDOUT; SELECT 1; COPY (SELECT 1 FROM t WHERE ((SELECT true AS a$b$)", "bracket"),
        ("a = '\0'", "zero byte"),
    ],
)
def test_a_text_that_is_more_or_less_than_one_condition_is_refused(where, why):
    assert why in str(conditions.fault_of(where))


@pytest.mark.parametrize(
    ("statement", "condition"),
    [
        ("SELECT * FROM public.t", None),
        ("select * from public.t;", None),
        ("SELECT * FROM public.t ORDER BY id", None),
        ("SELECT * FROM public.t WHERE a = 1 ORDER BY id;", "a = 1"),
        ('SELECT * FROM "public"."t" WHERE b IN (SELECT 1 FOR UPDATE)', "b IN (SELECT 1 FOR UPDATE)"),
        ("SELECT * FROM public.t WHERE x = 'LIMIT 5'", "x = 'LIMIT 5'"),
    ],
)
def test_a_select_of_the_users_own_is_its_condition(statement, condition):
    assert condition_of(statement, T) == condition


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT id FROM public.t",
        "SELECT * FROM public.u",
        "SELECT * FROM public.t AS x",
        "SELECT * FROM public.t WHERE a = 1 LIMIT 5",
        "SELECT * FROM public.t JOIN public.u USING (id)",
        "DELETE FROM public.t",
    ],
)
def test_a_select_that_is_no_choice_of_rows_is_refused(statement):
    with pytest.raises(DefiniteError, match="cannot be used"):
        condition_of(statement, T)


def test_a_domain_is_resolved_where_no_other_column_has_its_type():
    rows = {
        1: (1, "public", "shorter", "d", 0, 2, -1, "S"),
        2: (2, "public", "short", "d", 0, 3, 9, "S"),
        3: (3, "pg_catalog", "varchar", "b", 0, 0, -1, "S"),
    }
    types = Types(lambda numbers: ([rows[number] for number in numbers], []))
    types.add([rows[1]], [])  # as a reading of the catalog's columns brings it

    found = types.column(Column(name="c", type="", type_text="shorter", nullable=True), 1, -1)

    assert (found.type, found.length) == ("varchar", 5)
