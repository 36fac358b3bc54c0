"""Creates the shop's tables and fills them before anything is captured, fast and reproducibly.

The server generates the rows. Keys have every shape that a dump must handle: an auto-increment
number, a composite key, a text with the server's own collation. The numbers table is in a database
that is not captured. These are the tables of MySQL and MariaDB; those of PostgreSQL are in
``postgres/shop.py``, and ``everything`` is in ``everything.py``.
"""

# ruff: noqa: RUF001 - letters that look alike are data here

from __future__ import annotations

from dataclasses import dataclass

from demo.connection import Connect
from demo.everything import create_everything, fill_everything
from demo.postgres import shop as postgres

DATABASE = "shop"
NUMBERS_DATABASE = "demo_load"
TABLES = ("countries", "customers", "everything", "order_items", "orders", "products")
"""Names of the shop's tables; each becomes a topic and a Delta table."""

ITEMS_PER_ORDER = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The number of rows of each table at the start."""

    customers: int = 50_000
    orders: int = 80_000
    products: int = 10_000
    everything: int = 4_000

    @property
    def total(self) -> int:
        """Number of all rows, with the items of the orders and the countries."""
        return self.customers + self.orders * (1 + ITEMS_PER_ORDER) + self.products + self.everything + len(COUNTRIES)


DEMO = Sizes()
"""Sizes of the demo, some 300 000 rows: two cores have all of them in the lake within two minutes."""

COUNTRIES = tuple(f"{chr(65 + n // 26)}{chr(65 + n % 26)}" for n in range(0, 26 * 26, 3))
_COUNTRY_ROWS = [(code, f"Country {code} – Ω", None if at % 5 == 0 else at / 4) for at, code in enumerate(COUNTRIES)]

_CREATE = {
    "countries": """
        code char(2) NOT NULL, name varchar(60) NOT NULL, vat decimal(5,2) NULL,
        PRIMARY KEY (code)""",
    "customers": """
        id int unsigned NOT NULL AUTO_INCREMENT, email varchar(120) NOT NULL, name varchar(80) CHARACTER SET utf8mb4 NOT NULL,
        country char(2) NOT NULL, credit decimal(12,2) NOT NULL DEFAULT 0.00, vip tinyint(1) NOT NULL DEFAULT 0, born date NULL,
        created datetime(6) NOT NULL,
        PRIMARY KEY (id), KEY by_country (country)""",
    "products": """
        code varchar(40) CHARACTER SET utf8mb4 NOT NULL, title varchar(100) CHARACTER SET utf8mb4 NOT NULL, price decimal(10,2) NOT NULL,
        stock int NOT NULL DEFAULT 0,
        tags set('new','sale','heavy','fragile') NOT NULL DEFAULT '',
        changed timestamp(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
        PRIMARY KEY (code)""",
    "orders": """
        id bigint NOT NULL AUTO_INCREMENT, customer_id int unsigned NOT NULL,
        status enum('new','paid','sent','returned') NOT NULL DEFAULT 'new',
        total decimal(12,2) NOT NULL, placed datetime NOT NULL, comment varchar(200) CHARACTER SET utf8mb4 NULL,
        PRIMARY KEY (id), KEY by_customer (customer_id)""",
    "order_items": """
        order_id bigint NOT NULL, line smallint NOT NULL, product varchar(40) CHARACTER SET utf8mb4 NOT NULL,
        quantity int unsigned NOT NULL,
        price decimal(10,2) NOT NULL, weight double NULL,
        PRIMARY KEY (order_id, line)""",
}

_NUMBERS = f"(SELECT a.n * 1000 + b.n AS n FROM {NUMBERS_DATABASE}.numbers a, {NUMBERS_DATABASE}.numbers b) t"

PRODUCT_CODE = "CONCAT(ELT(1 + n % 7, 'sku', 'SKU', 'Ärtikel', 'étoile', '品', 'ß', 'zz'), '-', LPAD(n, 6, '0'))"
"""SQL of a product's code with mixed case and accents, so that only the server knows the order."""

_FILL = {
    "customers": f"""
        INSERT INTO {{db}}.customers (email, name, country, credit, vip, born, created)
        SELECT CONCAT('c', n, '@example.com'),
            CONCAT(ELT(1 + n % 5, 'Anna', 'Jürgen', '美咲', 'Zoë', 'Ярослав'), ' ', SUBSTR(SHA2(n, 224), 1, 8)),
            ELT(1 + n % 4, 'AA', 'DE', 'FR', 'JP'), CAST(n % 100000 AS SIGNED) / 100 - 200, n % 17 = 0,
            IF(n % 9 = 0, NULL, DATE_ADD('1930-01-01', INTERVAL n % 30000 DAY)),
            DATE_ADD('2015-03-01 08:00:00.000001', INTERVAL n * 1000003 MICROSECOND)
        FROM {_NUMBERS} WHERE n < {{rows}} ORDER BY n""",
    "products": f"""
        INSERT INTO {{db}}.products (code, title, price, stock, tags)
        SELECT {PRODUCT_CODE}, CONCAT('Product ', n, ' ', SUBSTR(SHA2(n * 3, 224), 1, 20)), n % 9000 / 7, n % 500, n % 16
        FROM {_NUMBERS} WHERE n < {{rows}} ORDER BY n""",
    "orders": f"""
        INSERT INTO {{db}}.orders (customer_id, status, total, placed, comment)
        SELECT 1 + n * 7919 % {{customers}}, 1 + n % 4, n % 100000 / 3, DATE_ADD('2020-01-01', INTERVAL n * 37 SECOND),
            IF(n % 3 = 0, NULL, CONCAT('note ', SHA2(n, 224), ' ✓'))
        FROM {_NUMBERS} WHERE n < {{rows}} ORDER BY n""",
    "order_items": f"""
        INSERT INTO {{db}}.order_items (order_id, line, product, quantity, price, weight)
        SELECT o.id, l.n, CONCAT('sku-', LPAD(o.id * 31 % 9999, 6, '0')), 1 + o.id % 9, o.id % 5000 / 9,
            IF(o.id % 4 = 0, NULL, o.id / (l.n + 7))
        FROM {{db}}.orders o, {NUMBERS_DATABASE}.numbers l WHERE l.n < {ITEMS_PER_ORDER}""",
}


def create_shop(connect: Connect, *, sizes: Sizes, flavor: str, database: str = DATABASE) -> None:
    """Create the database again (for PostgreSQL the schema) and fill it.

    This takes a few seconds for 300 000 rows, because the rows never leave the server.
    """
    if flavor == "postgres":
        rows = {"customers": sizes.customers, "products": sizes.products, "orders": sizes.orders, "order_items": ITEMS_PER_ORDER}
        postgres.create_shop(connect, rows=rows, countries=_COUNTRY_ROWS, database=database)
    else:
        _create_shop(connect, sizes=sizes, flavor=flavor, database=database)
    fill_everything(connect, rows=sizes.everything, database=database, flavor=flavor)


def _create_shop(connect: Connect, *, sizes: Sizes, flavor: str, database: str) -> None:
    with connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION time_zone = '+00:00'")
        for name in (database, NUMBERS_DATABASE):
            cursor.execute(f"DROP DATABASE IF EXISTS {name}")
            cursor.execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
        cursor.execute(f"CREATE TABLE {NUMBERS_DATABASE}.numbers (n bigint NOT NULL PRIMARY KEY)")
        cursor.execute(f"INSERT INTO {NUMBERS_DATABASE}.numbers VALUES {', '.join(f'({n})' for n in range(1000))}")
        for table, body in _CREATE.items():
            cursor.execute(f"CREATE TABLE {database}.{table} ({body}) ENGINE=InnoDB")
        cursor.execute(create_everything(database, flavor=flavor))
        cursor.executemany(
            f"INSERT INTO {database}.countries (code, name, vat) VALUES (%s, %s, %s)",
            _COUNTRY_ROWS,
        )
        connection.commit()
        # MySQL needs a current database for a derived table.
        cursor.execute(f"USE {database}")
        for table, rows in (("customers", sizes.customers), ("products", sizes.products), ("orders", sizes.orders), ("order_items", 0)):
            cursor.execute(_FILL[table].format(db=database, rows=rows, customers=sizes.customers))
            connection.commit()
