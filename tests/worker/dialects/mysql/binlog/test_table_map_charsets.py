"""Character sets as the servers of every version report them."""

import pytest
from dblog.dialects.mysql.binlog.table_map_schema import Charsets, collations_sql


@pytest.mark.parametrize(
    ("flavor", "version", "column"),
    [
        ("mariadb", (10, 5, 0), " COLLATION_NAME"),
        ("mariadb", (10, 10, 0), " COLLATION_NAME"),
        ("mariadb", (10, 10, 1), " FULL_COLLATION_NAME"),
        ("mariadb", (11, 8, 2), " FULL_COLLATION_NAME"),
        ("mysql", (5, 7, 44), " COLLATION_NAME"),
        ("mysql", (9, 7, 0), " COLLATION_NAME"),
    ],
)
def test_collations_are_asked_for_by_a_column_that_the_server_has(flavor, version, column):
    assert f"{column} FROM" in collations_sql(flavor, version)


def test_a_server_that_shows_utf8_means_the_charset_of_our_schemas():
    charsets = Charsets.of([(33, "utf8", "utf8_general_ci"), ("45", "utf8mb4", "utf8mb4_general_ci")], [("utf8", 3), ("utf8mb4", "4")])

    assert charsets.collations == {33: ("utf8mb3", "utf8mb3_general_ci"), 45: ("utf8mb4", "utf8mb4_general_ci")}
    assert charsets.widths == {"utf8mb3": 3, "utf8mb4": 4}
