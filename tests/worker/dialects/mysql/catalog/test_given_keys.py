"""Values that a person gives for a key: what is none of the column's type is refused by the key's number, whichever it is, and what is one is sent as such."""

import datetime as dt
import struct
from decimal import Decimal
from typing import Any

import pytest
from dblog.core.dumprequests import parse_request
from dblog.dialects.mysql.catalog import given_keys, sql
from dblog.dialects.mysql.wire import protocol
from dblog.errors import DefiniteError
from dblog.model import Column, Table, TableId


def table_of(*columns: Column) -> Table:
    return Table(id=TableId("shop", "t"), columns=columns, key=tuple(column.name for column in columns))


def column(type_: str, **more: Any) -> Column:
    return Column(name="k", type=type_, type_text=type_, nullable=False, **more)


ENUM = column("enum", members=("a", "b?"), charset="utf8mb4", collation="utf8mb4_bin")
SET = column("set", members=("a", "b"), charset="utf8mb4", collation="utf8mb4_bin")
TEXT = column("varchar", length=20, charset="latin1", collation="latin1_swedish_ci")
MOMENT = dt.datetime(2026, 1, 31, 8)  # noqa: DTZ001 - as a server has it
DECIMAL = column("decimal", length=30, scale=2)


@pytest.mark.parametrize(
    ("of", "values"),
    [
        (column("tinyint"), [-128, 127]),
        (column("mediumint", unsigned=True), [0, 16_777_215]),
        (column("bigint"), [-(1 << 63), (1 << 63) - 1]),
        (column("bigint", unsigned=True), [0, (1 << 64) - 1]),
        (column("bit", length=5), [0, 31]),
        (column("year"), [0, 1901, 2155]),
        (
            DECIMAL,
            [10**28 - 1, -(10**28) + 1, Decimal("9999999999999999999999999999.99"), Decimal("1.500"), Decimal("1E+5"), Decimal("0E-9")],
        ),
        (column("double"), [1.5, 3, -(1 << 63)]),
        (column("date"), ["2026-01-31", "2020-02-31", "0000-00-00", dt.date(2026, 1, 31)]),
        (column("datetime"), ["2026-01-31 23:59:59.000001", "2026-01-31T08:30:00", "2026-01-31", MOMENT]),
        (column("timestamp"), ["2026-01-31 08:30:00"]),
        (column("time"), ["838:59:59", "-08:30:00.5", dt.timedelta(hours=-838)]),
        (column("varbinary"), [b"", b"\xff"]),
        (ENUM, ["a", "b?", ""]),
        (SET, ["a", "b,a", ""]),
        (TEXT, ["é", b"\xe9", ""]),
    ],
    ids=lambda given: given.type if isinstance(given, Column) else "",
)
def test_values_of_the_columns_type_are_taken_and_can_be_sent(of: Column, values: list[Any]) -> None:
    table, keys = table_of(of), [(value,) for value in values]

    given_keys.check(table, keys)

    for statement in (sql.rows_by_key(table, keys), *(probe for _, probe in given_keys.probes(table, keys))):
        protocol.execute(1, statement[1])


@pytest.mark.parametrize(
    ("of", "values", "wanted"),
    [
        (column("tinyint"), [128, -129, "1", 1.0, True], "a whole number from -128 to 127"),
        (column("int", unsigned=True), [-1, 1 << 32], "a whole number from 0 to 4294967295"),
        (column("bigint"), [1 << 63, -(1 << 63) - 1], "a whole number from -9223372036854775808 to 9223372036854775807"),
        (column("bigint", unsigned=True), [1 << 64, -1], "a whole number from 0 to 18446744073709551615"),
        (column("bit", length=5), [32, -1], "a whole number from 0 to 31"),
        (column("year"), [70, 1900, 2156, "2026"], "a year of four digits"),
        (
            DECIMAL,
            [
                10**28,
                Decimal("1.005"),
                *map(Decimal, ("NaN", "Infinity", "1E+999999999", "1E-999999999", "0E-999999999", "0E+999999999")),
                "1",
            ],
            "with at most 28 digits before the decimal point and 2 after it",
        ),
        (column("double"), [float("inf"), float("nan"), 10**400, "1"], "a number"),
        (
            column("date"),
            ["no date", "2026-13-01", "2026-01-32", "2026-01-31 08:30:00", "", 20260131, MOMENT],
            "such as 2026-01-31",
        ),
        (
            column("datetime"),
            [
                "2026-01-31 24:00:00",
                "2026-01-31 08:30",
                "2026-01-31 08:30:00Z",
                "٢026-01-31",
                MOMENT.replace(tzinfo=dt.UTC),
                dt.timedelta(1),
            ],
            "such as 2026-01-31 08:30:00",
        ),
        (column("time"), ["839:00:00", "08:60:00", "8", dt.timedelta(hours=839), dt.date(2026, 1, 31)], "such as 08:30:00"),
        (column("varbinary"), ["a", 1], "<base64>"),
        (ENUM, ["zzz", "A", b"a", 1], "one of its members"),
        (SET, ["q", "a,q", "a,", b"a", 1], "members of its"),
        (TEXT, [1, 1.5], "a text"),
    ],
    ids=lambda given: given.type if isinstance(given, Column) else "",
)
def test_any_other_value_is_refused_wherever_it_stands(of: Column, values: list[Any], wanted: str) -> None:
    table = table_of(of)
    right: dict[str, Any] = {
        "year": 2026,
        "double": 1.5,
        "date": "2026-01-31",
        "datetime": "2026-01-31",
        "time": "08:30:00",
        "varbinary": b"a",
    }
    good = right.get(of.type, "a" if of.charset else 1)

    for value in values:
        with pytest.raises(DefiniteError, match="^key 3 has a value for shop.t.k that does not fit its type") as raised:
            given_keys.check(table, [(good,), (good,), (value,)])
        assert wanted in str(raised.value)


def test_keys_need_a_key_with_as_many_columns() -> None:
    two = Table(
        id=TableId("shop", "t"), columns=(column("int"), Column(name="v", type="int", type_text="int", nullable=False)), key=("k", "V")
    )

    given_keys.check(two, [(1, 2)])
    with pytest.raises(DefiniteError, match="key 2 has 1 values, and the key of shop.t has 2 columns: k, V"):
        given_keys.check(two, [(1, 2), (1,)])
    with pytest.raises(DefiniteError, match="shop.t has no key that its rows could be asked for by; use a predicate"):
        given_keys.check(Table(id=two.id, columns=two.columns), [(1, 2)])


def test_every_key_is_tried_on_the_server_in_parts_that_a_statement_holds() -> None:
    table = table_of(column("int"))

    tried = list(given_keys.probes(table, [(n,) for n in range(401)]))

    assert [numbers for numbers, _ in tried] == ["one of the keys 1 to 200", "one of the keys 201 to 400", "key 401"]
    assert [value for _, (_, parameters) in tried for value in parameters] == list(range(401))
    assert all(text.startswith("SELECT 1 FROM `shop`.`t`") for _, (text, _) in tried)


def test_numbers_beyond_64_bits_of_a_request_do_not_get_as_far_as_a_statement() -> None:
    request = parse_request(
        {"tables": ["shop\\.t"], "keys": [[1], [1 << 64]]}, id="0" * 12, connector="c", created_ms=1, requested_by="rest"
    )
    assert request.keys is not None
    table = table_of(column("bigint"))

    with pytest.raises(struct.error):
        protocol.execute(1, sql.rows_by_key(table, request.keys)[1])
    with pytest.raises(DefiniteError, match="key 2 "):
        given_keys.check(table, request.keys)
