"""Every declared key is read by code, refused with a reason, or has a reason why it has no effect here: none is silently ignored."""

import ast
import re
from functools import cache
from pathlib import Path

import dblog
import pytest
from dblog.config import worker_options
from dblog.config.connector import MARIADB_OPTIONS, MYSQL_OPTIONS, POSTGRES_OPTIONS
from dblog.config.converter_options import CONVERTER_OPTIONS
from dblog.config.framework import FRAMEWORK_OPTIONS
from dblog.config.unknown_keys import without_effect
from dblog.config.worker_options import WORKER_OPTIONS

SOURCE = Path(dblog.__file__).parent
DECLARATIONS = ("config/connector_options/", "config/converter_options.py", "config/framework.py", "config/worker_options.py")
ALL = (*CONVERTER_OPTIONS, *WORKER_OPTIONS, *FRAMEWORK_OPTIONS, *MYSQL_OPTIONS, *MARIADB_OPTIONS)
OPTIONS = {option.name: option for option in ALL}
OF_POSTGRES = {option.name: option for option in POSTGRES_OPTIONS}
NAMED = {name: key for name, key in vars(worker_options).items() if name.isupper() and isinstance(key, str)}
"""Keys of the worker's options that other modules read by the name of a constant."""
OF_BINLOGS = ("dialects/mysql/", "dialects/mariadb/")
CHARACTERS_MIN = 8
"""Of an f-string's fixed parts: a shorter one would match any key."""


@cache
def keys_read(*outside: str) -> tuple[set[str], list[re.Pattern[str]]]:
    """Texts of the code outside the declarations and these folders, and patterns of its f-strings."""
    texts: set[str] = set()
    patterns: list[re.Pattern[str]] = []
    for file in SOURCE.rglob("*.py"):
        if str(file.relative_to(SOURCE)).startswith((*DECLARATIONS, *outside)):
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.add(node.value)
            elif isinstance(node, ast.Name) and node.id in NAMED:
                texts.add(NAMED[node.id])
            elif isinstance(node, ast.JoinedStr):
                fixed = [part.value for part in node.values if isinstance(part, ast.Constant)]
                if sum(map(len, fixed)) >= CHARACTERS_MIN:
                    parts = (re.escape(part.value) if isinstance(part, ast.Constant) else r"[\w.]+" for part in node.values)
                    patterns.append(re.compile("".join(parts)))
    return texts, patterns


CHECKED_ALONE = {"signal.kafka.bootstrap.servers", "topic.key.enforce.uniqueness"}
"""Read only by the check of a configuration, which refuses values: hosts that the operator does not allow, a field that is not added to keys yet."""
ALIKE_BY_CHANCE = {"openlineage.integration.dataset.kafka.bootstrap.servers"}
"""Read by nobody, and ending as an f-string does that reads the brokers of clients."""


def is_read(name: str, *outside: str) -> bool:
    texts, patterns = keys_read(*outside)
    return name in texts or any(pattern.fullmatch(name) for pattern in patterns)


@pytest.mark.parametrize("name", OPTIONS)
def test_a_key_is_read_or_refused_or_has_a_reason_for_its_lack_of_effect(name):
    option = OPTIONS[name]

    assert is_read(name) or name in CHECKED_ALONE or option.refused is not None or option.no_effect is not None


@pytest.mark.parametrize("name", [name for name, option in OPTIONS.items() if option.no_effect is not None])
def test_a_key_that_has_a_reason_for_its_lack_of_effect_is_read_by_nobody(name):
    assert not is_read(name) or name in CHECKED_ALONE


@pytest.mark.parametrize("name", OF_POSTGRES)
def test_a_key_of_postgresql_is_read_by_code_that_is_not_of_binlogs_or_refused_or_has_a_reason(name):
    option = OF_POSTGRES[name]

    assert is_read(name, *OF_BINLOGS) or name in CHECKED_ALONE or option.refused is not None or option.no_effect is not None


@pytest.mark.parametrize("name", [name for name, option in OF_POSTGRES.items() if option.no_effect is not None])
def test_a_key_of_postgresql_that_has_a_reason_for_its_lack_of_effect_is_read_by_nobody(name):
    assert not is_read(name, *OF_BINLOGS) or name in CHECKED_ALONE | ALIKE_BY_CHANCE


@pytest.mark.parametrize("name", [name for name, option in OPTIONS.items() if option.no_effect is not None and option.refused is not None])
def test_of_a_key_without_effect_only_some_values_may_be_refused(name):
    option = OPTIONS[name]
    assert any(option.refused(value) is None for value in option.choices)


def test_whoever_sets_a_key_without_effect_to_another_value_than_its_default_is_reported():
    given = {
        "name": "a",
        "tasks.max": "4",
        "snapshot.fetch.size": "100",
        "min.row.count.to.stream.results": "1000",
        "snapshot.mode": "initial",
    }

    assert without_effect(MYSQL_OPTIONS, given) == {
        "tasks.max": "no effect here: a log is read by one task",
        "snapshot.fetch.size": "no effect here: a dump reads chunks: dblog.chunk.rows",
    }
