"""Whether the tables of a connector lie in databases or in schemas, by the keys that it has."""

from dblog.config.connector import MARIADB_OPTIONS, MYSQL_OPTIONS, POSTGRES_OPTIONS
from dblog.config.namespaces import Namespace, namespace_of
from dblog.config.options import Settings


def test_tables_of_mysql_lie_in_databases_and_those_of_postgresql_in_schemas():
    for options in (MYSQL_OPTIONS, MARIADB_OPTIONS):
        assert namespace_of({option.name for option in options}) is Namespace.DATABASE
    assert namespace_of({option.name for option in POSTGRES_OPTIONS}) is Namespace.SCHEMA


def test_a_key_that_a_user_writes_beside_the_declared_ones_decides_nothing():
    assert namespace_of(Settings({"database.include.list": ()}, {"schema.include.list": "a"})) is Namespace.DATABASE
    assert namespace_of(Settings({"schema.include.list": ()}, {"database.include.list": "a"})) is Namespace.SCHEMA


def test_the_keys_begin_with_the_word():
    assert [(each.include, each.exclude) for each in Namespace] == [
        ("database.include.list", "database.exclude.list"),
        ("schema.include.list", "schema.exclude.list"),
    ]
