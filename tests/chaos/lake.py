"""Delta tables whose dates and moments are read as numbers: Python's classes end with the year 9999, and PostgreSQL's values do not."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError
from demo.lake import Lake, quoted


class PlainLake(Lake):
    """Days since 1970, microseconds since then, and maps as sorted pairs."""

    def read_rows(self, database: str, table: str, names: Sequence[str]) -> Iterator[Sequence[Any]]:
        delta = DeltaTable(self.path(database, table))
        sql = f"SELECT {', '.join(map(quoted, names))} FROM t"
        try:
            batches = QueryBuilder().register("t", delta).execute(sql)
        except DeltaError as e:
            if "feature" not in str(e):
                raise
            types = {field.name: json.loads(field.type.to_json()) for field in delta.schema().fields}
            numbers = ", ".join(_in_spark(quoted(name), types[name]) for name in names)
            for row in self._select_by_spark(database, table, f"SELECT {numbers} FROM t"):
                yield [_named(value, types[name]) for name, value in zip(names, row, strict=True)]
            return
        for batch in batches:
            yield from zip(*(_plain(pa.array(column)) for column in batch.columns), strict=True)


def _in_spark(value: str, of: Any) -> str:
    """The same by Spark, which reads what delta-rs does not know (type widening)."""
    match of:
        case "date":
            return f"datediff({value}, DATE'1970-01-01')"
        case "timestamp" | "timestamp_ntz":
            return f"unix_micros(CAST({value} AS TIMESTAMP))"
        case {"type": "array", "elementType": element}:
            return f"transform({value}, e -> {_in_spark('e', element)})"
        case {"type": "map"}:
            return f"array_sort(map_entries({value}))"
    return value


def _named(value: Any, of: Any) -> Any:
    """Spark gives the fields of a struct without their names."""
    match of:
        case {"type": "struct", "fields": fields} if value is not None:
            return {field["name"]: _named(value[at], field["type"]) for at, field in enumerate(fields)}
        case {"type": "array", "elementType": element} if value is not None:
            return [_named(item, element) for item in value]
    return value


def _plain(column: pa.Array) -> list[Any]:
    of = column.type
    if pa.types.is_map(of):
        return [None if one is None else sorted(map(list, one)) for one in column.to_pylist()]
    return column.cast(_numbers(of)).to_pylist()


def _numbers(of: pa.DataType) -> pa.DataType:
    if pa.types.is_date32(of):
        return pa.int32()
    if pa.types.is_timestamp(of):
        return pa.int64()
    if pa.types.is_list(of) or pa.types.is_large_list(of):
        return pa.list_(_numbers(of.value_type))
    return of
