"""Masks, hashes and cuts: what Debezium 3.6.1 itself made of the same columns and values, and what its manual's keys mean."""

import tracemalloc

import pytest
from dblog.codecs.rewrites import Hash, Mask, Truncate
from dblog.codecs.schema import Kind
from dblog.config.column_rules import column_rules
from dblog.core.selection import column_rewrite
from dblog.dialects.mysql.values.types import TypeModes, column_plan
from dblog.errors import ConfigError
from dblog.model import Column, TableId

HASHES = [
    (Hash("SHA-256", "abc", 1), "hash me", "2cba1e2a828e017fe456faf11186f4dc346a8b9a9bf39e65c39e43ee0e68c9a5"),
    (Hash("SHA-256", "abc", 2, 20), "hash me", "ff0236d2c29b3f3cc7e2"),
    (Hash("SHA-256", "abc", 2), "hash me", "ff0236d2c29b3f3cc7e2fcf3dc173c9039886551f117453be900f67a6f7f8c1d"),
    (Hash("MD5", "CzQMA0cB5K", 1), "añ😀", "fcb2384488d51d1d91deaa27d7e67458"),
    (Hash("SHA-1", "with.salt.x", 1), "x", "7ff93d8884b0335500501f94e2312f5ac5cf11c9"),
    (Hash("SHA-384", "é", 2), "abc", "bb2f590ef2e3b9b557d466c77b5d4b8bc70c3a9b11d501f7712729a79aaa8023dee808f039b5bca901528e22dba0d3cd"),
    (Hash("SHA-256", "x", 1), "abcdef", "ccefad7aed393ab1c426d93f1d3891f94ea3ce111701a51f6cf3832f50f3b96d"),
]


@pytest.mark.parametrize(("rewrite", "text", "digits"), HASHES)
def test_hashes_are_those_of_debezium(rewrite: Hash, text: str, digits: str) -> None:
    assert rewrite(text) == digits
    assert rewrite(None) is None


@pytest.mark.parametrize(
    ("text", "length", "cut"),
    [
        ("abcdef", 3, "abc"),
        ("abc", 3, "abc"),
        ("😀😀x", 3, "😀?"),
        ("😀😀x", 4, "😀😀"),
        ("😀", 1, "?"),
        ("a😀", 1, "a"),
        ("", 5, ""),
        ("é漢b", 2, "é漢"),
    ],
)
def test_a_cut_counts_as_java_does(text: str, length: int, cut: str) -> None:
    assert Truncate(length)(text) == cut


def test_a_cut_shortens_bytes_and_a_mask_hides_null() -> None:
    assert Truncate(2)(b"\x01\x02\x03") == b"\x01\x02"
    assert Truncate(2)(None) is None
    assert Mask("***")(None) == "***"


COLUMNS = {
    "varchar(10)": {"length": 10, "charset": "utf8mb4"},
    "char(3)": {"length": 3, "charset": "utf8mb4"},
    "text": {"charset": "utf8mb4"},
    "enum('abcdef')": {"members": ("abcdef",)},
    "set('aaaa','bbbb')": {"members": ("aaaa", "bbbb")},
    "json": {},
    "blob": {},
    "int": {},
    "timestamp": {},
    "decimal(10,2)": {"length": 10, "scale": 2},
    "bit(16)": {"length": 16},
}


def rewritten(type_text: str, rewrite: object) -> tuple[object, tuple[tuple[str, str], ...]]:
    name = type_text.split("(", maxsplit=1)[0]
    column = Column(name="c", type=name, type_text=type_text, nullable=True, **COLUMNS[type_text])
    table = TableId("db", "t")
    plain = column_plan(column, TypeModes(), table)
    plan = column_plan(
        column,
        TypeModes(column_rewrite=lambda asked: rewrite if asked == "db.t.c" else None, column_propagate_source_type=lambda _: True),
        table,
    )
    assert plan.schema is not None
    assert plan.key_schema == plain.schema
    return plan.rewrite, plan.schema.parameters[len(plain.schema.parameters) :]


def test_a_cut_reaches_what_may_be_longer_and_is_text_or_bytes() -> None:
    found = {name: rewritten(name, Truncate(3)) for name in COLUMNS}

    note = (("truncateLength", "3"),)
    assert found == {
        "varchar(10)": (Truncate(3), note),
        "char(3)": (None, ()),
        "text": (Truncate(3), note),
        "enum('abcdef')": (None, ()),
        "set('aaaa','bbbb')": (None, ()),
        "json": (Truncate(3), note),
        "blob": (Truncate(3), note),
        "int": (None, note),
        "timestamp": (Truncate(3), note),
        "decimal(10,2)": (None, note),
        "bit(16)": (None, note),
    }


def test_a_mask_reaches_texts_and_notes_itself_at_every_column_it_names() -> None:
    found = {name: rewritten(name, Mask("*****")) for name in COLUMNS}

    assert {name for name, (rewrite, _) in found.items() if rewrite} == {
        "varchar(10)",
        "char(3)",
        "text",
        "enum('abcdef')",
        "set('aaaa','bbbb')",
    }
    assert {parameters for _, parameters in found.values()} == {(("masked", "true"),)}


def test_a_hash_is_no_longer_than_its_column() -> None:
    asked = Hash("SHA-256", "s", 2)

    assert [rewritten(name, asked)[0] for name in ("varchar(10)", "text", "enum('abcdef')")] == [
        Hash("SHA-256", "s", 2, 10),
        asked,
        Hash("SHA-256", "s", 2, 1),
    ]


def test_the_first_family_that_names_a_column_is_its_only_rule() -> None:
    rewrite = column_rewrite(
        {
            "column.mask.hash.v2.SHA-256.with.salt.x": r"shop\.customers\.(email|name|phone|town)",
            "column.mask.hash.SHA-512.with.salt.a.b": r"SHOP\.CUSTOMERS\.(EMAIL|NAME|PHONE)",
            "column.mask.with.4.chars": "shop.customers.email,shop.customers.name",
            "column.truncate.to.3.chars": "shop.customers.email",
        }
    )

    assert rewrite is not None
    found = [rewrite(f"shop.customers.{name}") for name in ("email", "name", "phone", "town", "id")]
    assert found == [Truncate(3), Mask("****"), Hash("SHA-512", "a.b", 1), Hash("SHA-256", "x", 2), None]
    assert column_rewrite({"column.include.list": "a.b.c"}) is None


@pytest.mark.parametrize(
    "key",
    ["column.mask.with.x.chars", "column.mask.hash.SHA-9.with.salt.x", "column.truncate.to.0.chars", "column.mask.hash.SHA-256.with.salt."],
)
def test_a_key_that_only_looks_like_one_is_refused(key: str) -> None:
    rules, errors = column_rules({key: "a.b.c"})

    assert list(errors) == [key]
    assert not [rule for rule in rules if rule.kind != "hash"]
    with pytest.raises(ConfigError):
        column_rewrite({key: "a.b.c"})


@pytest.mark.parametrize("length", ["65536", "500000001", "9" * 5000])
def test_a_mask_longer_than_any_column_is_refused_with_the_bound(length: str) -> None:
    key = f"column.mask.with.{length}.chars"

    rules, errors = column_rules({key: "a.b.c"})

    assert not rules
    assert errors[key][0].endswith("is not a length; use a number from 0 to 65535")
    assert len(errors[key][0]) < 200


def test_a_length_of_thousands_of_digits_is_refused() -> None:
    key = f"column.truncate.to.{'9' * 5000}.chars"

    assert "is not a length" in column_rules({key: "a.b.c"})[1][key][0]


def test_many_masks_are_refused_from_where_they_are_too_long_together() -> None:
    keys = [f"column.mask.with.{'0' * number}60000.chars" for number in range(20)]

    rules, errors = column_rules(dict.fromkeys(keys, "a.b.c"))

    assert list(errors) == keys[17:]
    assert len(rules) == 17


def test_no_mask_is_made_before_a_column_is_found_for_it() -> None:
    tracemalloc.start()
    try:
        rewrite = column_rewrite({f"column.mask.with.{number}.chars": "a.b.c" for number in range(65_520, 65_535)})
        assert tracemalloc.get_traced_memory()[1] < 500_000
    finally:
        tracemalloc.stop()

    assert rewrite is not None
    assert rewrite("a.b.c") == Mask("*" * 65_520)


def test_text_stays_text_in_the_schema() -> None:
    plan = column_plan(
        Column(name="c", type="varchar", type_text="varchar(9)", nullable=False, length=9),
        TypeModes(column_rewrite=lambda _: Mask("")),
        TableId("d", "t"),
    )

    assert plan.schema is not None
    assert plan.schema.kind is Kind.STRING
