"""A record of the schema-change topic fits into what Kafka takes, whatever statement a client has sent."""

from __future__ import annotations

import json

import pytest
from dblog.readers.schema_change_size import cut_statement, smaller_forms, value_bytes_max

COLUMNS = [{"name": "c" * 60, "comment": "x" * 1024} for _ in range(4096)]


@pytest.mark.parametrize("limit", [None, 1_000_000, 100_000_000, 20_000])
@pytest.mark.parametrize("text", ["x" * 50_000_000, "\x01" * 3_000_000, "é" * 2_000_000])
@pytest.mark.parametrize("columns", [[], COLUMNS])
def test_the_last_form_fits_however_long_statement_and_table_are(limit: int | None, text: str, columns: list) -> None:
    value = {"ddl": text, "tableChanges": [{"table": {"columns": columns}}]}

    sizes = [len(json.dumps(form)) for form in smaller_forms(value)]

    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < value_bytes_max(limit)


def test_the_tables_columns_stay_where_the_statement_alone_is_too_long() -> None:
    value = {"ddl": "x" * 50_000_000, "tableChanges": [{"table": {"columns": COLUMNS[:100]}}]}

    first = next(smaller_forms(value))

    assert first["tableChanges"] == value["tableChanges"]
    assert len(json.dumps(first)) < value_bytes_max(None)


def test_a_cut_statement_says_how_much_is_missing() -> None:
    assert cut_statement("abc", 3) == "abc"
    assert cut_statement("abcd", 3) == "abc\n/* cut by dblog: 1 of 4 characters are left out */"


def test_a_producer_of_smaller_records_is_heeded_and_one_of_larger_ones_is_not() -> None:
    assert value_bytes_max(None) == value_bytes_max(1_000_000) == value_bytes_max(50_000_000)
    assert value_bytes_max(100_000) < 100_000
    assert value_bytes_max(1000) == 500
