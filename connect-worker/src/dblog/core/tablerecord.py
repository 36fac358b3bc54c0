"""Converts a table to JSON values and back without loss, for records of the schema history.

Names are Debezium's where the meaning is Debezium's (``tableChanges`` of its history records; its
manual, "MySQL connector", Schema history topic). Members with default values are left out, because
wide tables make the largest records of the topic. In these records typeName is DATA_TYPE, and
typeExpression is COLUMN_TYPE.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dblog.model import Column, Index, Table, TableId, Written


def table_record(table: Table) -> dict[str, object]:
    """Return a table as JSON values, with the names described at the top of this module."""
    record: dict[str, object] = {
        "primaryKeyColumnNames": list(table.key),
        "keyIsPrimary": table.primary_key,
        "columns": [_column_record(column) for column in table.columns],
    }
    if table.indexes:
        record["indexes"] = [
            {"name": index.name, "columns": list(index.columns)}
            | {name: True for name in ("unique", "partial", "functional") if getattr(index, name)}
            for index in table.indexes
        ]
    extra = {"defaultCharsetName": table.charset, "collation": table.collation, "comment": table.comment, "number": table.number}
    record |= {name: value for name, value in extra.items() if value is not None}
    record |= ({"partitioned": True} if table.partitioned else {}) | ({"attached": list(table.attached)} if table.attached else {})
    record |= {name: list(value) for name, value in _traces(table).items() if value}
    record |= {"partitions": list(table.partitions)} if table.partitions else {}
    record |= {} if table.large_values is None else {"largeValues": table.large_values}
    return record if table.file is None else record | {"file": table.file}


def _traces(table: Table) -> Mapping[str, tuple[str, ...]]:
    return {"publishedBy": table.published_by, "columnsWrittenBy": table.columns_written_by}


def table_of_record(id_: TableId, record: Mapping[str, Any]) -> Table:
    """Return the table that ``table_record`` wrote."""
    return Table(
        id=id_,
        columns=tuple(_column_of(column) for column in record["columns"]),
        key=tuple(record["primaryKeyColumnNames"]),
        primary_key=bool(record["keyIsPrimary"]),
        charset=record.get("defaultCharsetName"),
        collation=record.get("collation"),
        comment=record.get("comment"),
        number=record.get("number"),
        partitioned=bool(record.get("partitioned")),
        attached=tuple(record.get("attached", ())),
        file=record.get("file"),
        large_values=record.get("largeValues"),
        published_by=tuple(record.get("publishedBy", ())),
        columns_written_by=tuple(record.get("columnsWrittenBy", ())),
        partitions=tuple(record.get("partitions", ())),
        indexes=tuple(
            Index(
                name=index["name"],
                columns=tuple(index["columns"]),
                unique=bool(index.get("unique")),
                partial=bool(index.get("partial")),
                functional=bool(index.get("functional")),
            )
            for index in record.get("indexes", ())
        ),
    )


COLUMN_FIELDS = {
    "name": "name",
    "type": "typeName",
    "type_text": "typeExpression",
    "nullable": "optional",
    "unsigned": "unsigned",
    "length": "length",
    "scale": "scale",
    "charset": "charsetName",
    "collation": "collation",
    "members": "enumValues",
    "has_default": "hasDefaultValue",
    "default": "defaultValueExpression",
    "default_is_expression": "defaultIsExpression",
    "auto_increment": "autoIncremented",
    "generated": "generated",
    "invisible": "invisible",
    "hidden": "hidden",
    "comment": "comment",
    "number": "number",
}
"""Names in the record by field of ``model.Column``."""


def _column_record(column: Column) -> dict[str, object]:
    record: dict[str, object] = {}
    for attribute, name in COLUMN_FIELDS.items():
        value = getattr(column, attribute)
        if isinstance(value, tuple):
            value = list(value)
        if value is not None and value is not False and value != []:
            record[name] = value
    if column.written is not None:
        record["written"] = {"length": column.written.length, "default": column.written.default}
    return record


def _column_of(record: Mapping[str, Any]) -> Column:
    values = {attribute: record[name] for attribute, name in COLUMN_FIELDS.items() if name in record}
    values["members"] = tuple(values.get("members", ()))
    if (written := record.get("written")) is not None:
        values["written"] = Written(written["length"], written["default"])
    return Column(**{"nullable": False, **values})
