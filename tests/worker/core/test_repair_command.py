"""The pattern that a message's command has for a table: it matches that table alone, and survives JSON where it can."""

from __future__ import annotations

import json
import shlex
from itertools import product

from dblog.config.regex import any_of
from dblog.core.repair_command import repair_command, table_pattern
from dblog.model import TableId

NAMES = ["t", "a.b", "a$b", "a.", "x^[y]", "back\\slash", "(p|q)*", "a{2}+?", "it's -x #1", "a,b"]


def test_the_pattern_of_each_table_matches_it_and_no_other() -> None:
    tables = [TableId(*parts) for parts in product(NAMES, repeat=2)]
    same: dict[str, list[TableId]] = {}
    for table in tables:
        same.setdefault(str(table), []).append(table)

    for table in tables:
        matches = any_of([table_pattern(table)], ignore_case=True)
        assert [str(other) for other in tables if matches(str(other))] == [str(table)] * len(same[str(table)])


def test_an_ordinary_name_stands_in_the_command_as_it_is_and_can_be_pasted_from_json() -> None:
    command = repair_command("shop", [TableId("inventory", "customers"), TableId("inventory", "a$b")])

    assert command == "dblog dumps start shop inventory.customers 'inventory.a[$]b' --mode repair"
    assert shlex.split(json.dumps(command)[1:-1]) == shlex.split(command)
