"""The shop and its load do on every server what the demo promises: every type, every kind of change, in known numbers."""

import pytest
from demo import source as source_reader
from demo.canonical import of_source
from demo.connection import PostgresConnect, connect_to
from demo.everything import extreme_rows, kinds
from demo.load import ADDED_COLUMN, SENTINELS, Load
from demo.shop import DATABASE, DEMO, TABLES, Sizes, create_shop
from stack.process import wait_until

TINY = Sizes(customers=300, orders=400, products=100, everything=50)


@pytest.fixture(params=["mariadb", "mysql", "postgres"])
def source(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def connect(source, request):
    if source.flavor == "postgres":  # a publication is of one database
        return PostgresConnect({**source.login, "dbname": request.getfixturevalue("postgres_database")})
    return connect_to(source)


def rows_of(connect, statement):
    with connect() as connection, connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall()


def test_the_demo_has_half_a_million_rows():
    assert DEMO.total >= 300_000


def test_the_shop_has_as_many_rows_as_its_sizes_state(connect, source):
    create_shop(connect, sizes=TINY, flavor=source.flavor)

    counts = {table: rows_of(connect, f"SELECT COUNT(*) FROM {DATABASE}.{table}")[0][0] for table in TABLES}
    extremes = len(extreme_rows(flavor=source.flavor))
    assert sum(counts.values()) == TINY.total + extremes
    assert counts["orders"] == 400
    assert counts["order_items"] == 800


def test_every_row_of_every_type_can_be_read_back(connect, source):
    create_shop(connect, sizes=TINY, flavor=source.flavor)
    described = source_reader.describe(connect, DATABASE, "everything")

    rows = list(source_reader.read_rows(connect, DATABASE, "everything", described.columns))

    assert described.key == ("id",)
    generated = [] if source.flavor == "postgres" else ["twice"]  # PostgreSQL's log lacks such columns
    assert [column.name for column in described.columns] == ["id", *(kind.name for kind in kinds(source.flavor)), *generated]
    nullable = {kind.name for kind in kinds(source.flavor) if kind.nullable}
    for at, column in enumerate(described.columns):
        read = of_source(column)
        values = {row[at] if read is None else read(row[at]) for row in rows}
        assert len(values) > 1, f"{column.name} has only one value"
        assert (None in values) == (column.name in nullable), column.name


def test_postgresql_stores_large_values_apart_of_which_its_log_has_all_for_one_table_only(postgres, postgres_database):
    connect = PostgresConnect({**postgres.login, "dbname": postgres_database})
    create_shop(connect, sizes=TINY, flavor="postgres")

    apart = "SELECT relname, relreplident FROM pg_class WHERE relnamespace = 'shop'::regnamespace AND pg_relation_size(reltoastrelid) > 0 ORDER BY 1"
    assert rows_of(connect, apart) == [("everything", "d"), ("products", "f")]


def load_of(connect, source, *, changes_max):
    return Load(connect, flavor=source.flavor, sizes=TINY, rate_per_s=100_000, changes_max=changes_max, seed=3)


def test_the_load_ends_at_its_count(connect, source):
    create_shop(connect, sizes=TINY, flavor=source.flavor)
    load = load_of(connect, source, changes_max=500)

    load.start()
    wait_until(lambda: load.ended, timeout_s=120, what="the load to end")
    load.stop()

    assert 500 <= load.changes < 1_000


def test_the_load_makes_every_kind_of_change_and_fills_a_column_added_under_it(connect, source):
    create_shop(connect, sizes=TINY, flavor=source.flavor)
    # Ended by the test: a load that ended at a count might do so before the column is there.
    load = load_of(connect, source, changes_max=1_000_000)

    load.start()
    wait_until(lambda: load.changes > 100 or load.ended, timeout_s=60, what="some changes")
    load.add_column()
    so_far = load.changes
    wait_until(lambda: load.changes > so_far + 1_500 or load.ended, timeout_s=120, what="changes with the new column")
    load.stop()
    load.write_sentinels()

    assert load.key_changes > 0
    names = [column.name for column in source_reader.describe(connect, DATABASE, "orders").columns]
    assert names.index(ADDED_COLUMN) == (len(names) - 1 if source.flavor == "postgres" else names.index("status") + 1)
    with connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT COUNT({ADDED_COLUMN}) FROM {DATABASE}.orders")
        assert cursor.fetchone()[0] > 0
        for table, (_, where) in SENTINELS.items():
            cursor.execute(f"SELECT COUNT(*) FROM {DATABASE}.{table} WHERE {where}")
            assert cursor.fetchone()[0] == 1
