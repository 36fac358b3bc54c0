"""What one version of a table's schema changed against the one before it."""

import json

from dblog.page.schemachanges import ColumnChange, changes_between, columns_of


def envelope(*fields):
    row = {"type": "record", "name": "Value", "fields": list(fields)}
    sides = [{"name": "before", "type": ["null", row]}, {"name": "after", "type": ["null", "Value"]}]
    return json.dumps({"type": "record", "name": "Envelope", "fields": [*sides, {"name": "op", "type": "string"}]})


def column(name, kind):
    return {"name": name, "type": kind}


DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2}
DATE = {"type": "int", "connect.name": "io.debezium.time.Date"}


def test_columns_are_those_of_the_row_within_the_envelope_with_their_types_in_words():
    found = columns_of(envelope(column("id", "int"), column("price", ["null", DECIMAL]), column("day", DATE)))

    assert found == {"id": "int", "price": "decimal(8, 2), may be NULL", "day": "int (Date)"}


def test_a_flat_schema_has_the_columns_itself_and_what_is_no_schema_has_none():
    assert columns_of(json.dumps({"type": "record", "name": "Row", "fields": [column("id", "long")]})) == {"id": "long"}
    assert [columns_of(text) for text in ("", "[1", '"string"', "[]", '{"fields": 3}', '{"fields": [1]}')] == [{}] * 6


def test_the_difference_names_columns_that_came_went_and_changed():
    before, after = columns_of(envelope(column("id", "int"), column("old", "string"))), {"id": "long", "level": "int"}

    assert changes_between(before, after) == [
        ColumnChange("id", "int", "long"),
        ColumnChange("level", None, "int"),
        ColumnChange("old", "string", None),
    ]
    assert changes_between(after, after) == []
