"""Options that select the captured databases, tables, columns and transactions."""

from __future__ import annotations

from collections.abc import Mapping

from dblog.config.connector_options.forms import FILTERS, HIGH, LOW, bool_option, int_option, list_option, not_yet, option
from dblog.config.options import Value, all_of, excludes, only, regexes


def _key_columns(value: Value, _all: Mapping[str, Value]) -> str | None:
    if not isinstance(value, str):
        return None
    for part in filter(None, (part.strip() for part in value.split(";"))):
        table, colon, columns = part.rpartition(":")
        if not colon or not table.strip() or not columns.strip():
            return f"{part} has an invalid format (expecting '<table regex>:<column>,<column>')"
        if (problem := regexes((table, *columns.split(",")), {})) is not None:
            return problem
    return None


FILTER_OPTIONS = (
    list_option(
        name="table.include.list",
        doc=(
            "Regular expressions, separated by commas, of the tables to capture, as database.table. Each must "
            "match the whole name; upper and lower case are the same."
        ),
        importance=HIGH,
        group=FILTERS,
        label="Include Tables",
        check=regexes,
    ),
    list_option(
        name="table.exclude.list",
        doc="Regular expressions, separated by commas, of the tables that are not captured.",
        group=FILTERS,
        label="Exclude Tables",
        check=all_of(regexes, excludes("table.include.list")),
    ),
    list_option(
        name="column.include.list",
        doc="Regular expressions, separated by commas, of the columns that records contain, as database.table.column.",
        group=FILTERS,
        label="Include Columns",
        check=regexes,
    ),
    list_option(
        name="column.exclude.list",
        doc="Regular expressions, separated by commas, of the columns that records do not contain.",
        group=FILTERS,
        label="Exclude Columns",
        check=all_of(regexes, excludes("column.include.list")),
    ),
    bool_option(
        name="table.ignore.builtin",
        doc="Leaves out the server's own databases.",
        default="true",
        importance=LOW,
        group=FILTERS,
        label="Ignore system databases",
    ),
    option(
        name="message.key.columns",
        doc=(
            "Key columns of records for tables whose own key is not to be used: table-regex:column,column, several separated by semicolons."
        ),
        group=FILTERS,
        label="Columns PK mapping",
        check=_key_columns,
    ),
    int_option(
        name="guardrail.collections.max",
        doc="Maximum number of captured tables; 0 means no limit.",
        default="0",
        importance=LOW,
        group=FILTERS,
        label="Guardrail: tables max",
        refused=only(0, because=not_yet("limit the number of captured tables")),
    ),
    option(
        name="guardrail.collections.limit.action",
        no_effect="there is no limit on the number of captured tables yet",
        doc="Reaction to more captured tables than that limit: fail or warn.",
        default="warn",
        importance=LOW,
        group=FILTERS,
        label="Guardrail: action",
        choices=("warn", "fail"),
    ),
)
"""Options with Debezium's names, types and defaults, in the order of the reference page."""
