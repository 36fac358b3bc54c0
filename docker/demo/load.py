"""Writes as the shop's customers: inserts, updates and deletes until stopped or a given count.

The mix has what change capture easily gets wrong: changed primary keys (also in letter case only,
and to beyond the dumped range), a row deleted and inserted again in one transaction, many-row
statements, updates without effect, rolled back transactions.
"""

# ruff: noqa: RUF001 - letters that look alike are data here

from __future__ import annotations

import contextlib
import datetime as dt
import random
import threading
import time
from collections.abc import Iterator
from typing import Any

from demo.connection import Connect
from demo.everything import insert_text, random_row
from demo.kinds import TABLE as EVERYTHING
from demo.kinds import coin
from demo.shop import DATABASE, Sizes
from demo.statements import ADDED_COLUMN, is_lost_race, statements_of

Cursor = Any
"""A cursor of a driver. The drivers have no common type for it."""

SENTINELS = {
    "countries": ("INSERT INTO {db}.countries (code, name) VALUES ('99', 'sentinel')", "code = '99'"),
    "customers": (
        "INSERT INTO {db}.customers (email, name, country, created) VALUES ('sentinel', 's', 'AA', {now})",
        "email = 'sentinel'",
    ),
    "everything": ("INSERT INTO {db}.everything (varchar_d) VALUES ('sentinel')", "varchar_d = 'sentinel'"),
    "order_items": ("INSERT INTO {db}.order_items VALUES (9000000000000, 1, 'sentinel', 1, 1, NULL)", "order_id = 9000000000000"),
    "orders": (
        "INSERT INTO {db}.orders (customer_id, total, placed, comment) VALUES (1, 0, {now}, 'sentinel')",
        "comment = 'sentinel'",
    ),
    "products": ("INSERT INTO {db}.products (code, title, price) VALUES ('sentinel', 's', 1)", "code = 'sentinel'"),
}
"""Last row written to each table, and the condition that finds it in the lake."""


class Load:
    """A writer in a thread. Any thread may read its counts."""

    def __init__(
        self, connect: Connect, *, flavor: str, sizes: Sizes, rate_per_s: float, changes_max: int, seed: int, database: str = DATABASE
    ) -> None:
        self._connect = connect
        self._flavor = flavor
        self._statements = statements_of(flavor)
        self._sizes = sizes
        self._rate_per_s = rate_per_s
        self._changes_max = changes_max
        self._dice = random.Random(seed)
        self._db = database
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._codes: list[str] = []
        self._column_added = False
        self.changes = 0
        """Number of rows inserted, updated or deleted and committed so far."""
        self.key_changes = 0
        self.newest_order_at: dt.datetime | None = None
        """Time when the newest order was placed, from which the lake's lag is measured."""
        self.error: BaseException | None = None

    @property
    def ended(self) -> bool:
        """True if it has written its last row, or failed."""
        return self._thread is not None and not self._thread.is_alive()

    def start(self) -> None:
        """Start writing."""
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop after the current transaction, and raise the writer's error if there is one."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(60)
        if self.error is not None:
            raise self.error

    def add_column(self) -> None:
        """Execute ALTER TABLE while the writer and the dump use the table.

        Rows written from then on fill the new column.
        """
        with self._connect() as connection, connection.cursor() as cursor:
            cursor.execute(self._statements.add_column.format(db=self._db))
            connection.commit()
        self._column_added = True

    def write_sentinels(self) -> None:
        """Write a last row to every table.

        Once they have arrived, so has everything before them.
        """
        with self._connect() as connection, connection.cursor() as cursor:
            for statement, _ in SENTINELS.values():
                cursor.execute(statement.format(db=self._db, now=self._statements.now))
                connection.commit()

    def _run(self) -> None:
        try:
            with self._connect() as connection, connection.cursor() as cursor:
                cursor.execute(self._statements.in_utc)
                cursor.execute(f"SELECT code FROM {self._db}.products ORDER BY code LIMIT 5000")
                self._codes = [code for (code,) in cursor.fetchall()]
                connection.commit()
                self._write(connection, cursor)
        except BaseException as e:  # noqa: BLE001 - raised again where the load is stopped
            self.error = e

    def _write(self, connection: Any, cursor: Cursor) -> None:
        actions = (
            (30, self._place_order),
            (20, self._pay_orders),
            (12, self._change_products),
            (10, self._change_customer),
            (8, self._new_customer),
            (6, self._cancel_order),
            (6, self._change_items),
            (8, self._write_everything),
            (3, self._change_everything),
            (2, self._delete_everything),
            (3, self._rename_product),
            (2, self._move_item),
            (2, self._move_customer),
            (2, self._delete_and_insert),
            (2, self._change_nothing),
            (2, self._roll_back),
            (1, self._mark_many),
            (1, self._change_country),
        )
        weights = [weight for weight, _ in actions]
        began_s = time.monotonic()
        while not self._stop.is_set() and self.changes < self._changes_max:
            action = self._dice.choices(actions, weights)[0][1]
            with _again_after_a_lost_race(connection):
                self.changes += action(cursor)
                connection.commit()
                if action == self._place_order:
                    self.newest_order_at = dt.datetime.now(dt.UTC)
            ahead_s = self.changes / self._rate_per_s - (time.monotonic() - began_s)
            if ahead_s > 0:
                self._stop.wait(ahead_s)

    # -- one transaction each; the result is the number of changed rows -------------------------------------------------------------

    def _place_order(self, cursor: Cursor) -> int:
        customer = self._customer()
        names, values = "customer_id, total, placed, comment", [customer, self._dice.randint(100, 99999) / 100, self._comment()]
        added = ""
        if self._column_added:
            names, added = f"{names}, {ADDED_COLUMN}", ", %s"
            values.append(f"🎁 {self._dice.randint(0, 999)}" if coin(self._dice) else None)
        now, returning = self._statements.now, self._statements.returning_id
        cursor.execute(f"INSERT INTO {self._db}.orders ({names}) VALUES (%s, %s, {now}, %s{added}){returning}", values)
        order = cursor.fetchone()[0] if returning else cursor.lastrowid
        lines = self._dice.randint(1, 4)
        items = [
            part
            for line in range(lines)
            for part in (order, line, self._code(), self._dice.randint(1, 9), self._dice.randint(1, 9999) / 100, self._dice.random())
        ]
        cursor.execute(f"INSERT INTO {self._db}.order_items VALUES {', '.join(['(%s, %s, %s, %s, %s, %s)'] * lines)}", items)
        return 1 + lines

    def _pay_orders(self, cursor: Cursor) -> int:
        first = self._order()
        cursor.execute(
            f"UPDATE {self._db}.orders SET status = %s, comment = %s WHERE id BETWEEN %s AND %s",
            (self._dice.choice(("paid", "sent", "returned")), self._comment(), first, first + 2),
        )
        return int(cursor.rowcount)

    def _change_products(self, cursor: Cursor) -> int:
        cursor.execute(
            f"UPDATE {self._db}.products SET stock = stock - 1, price = price + 0.01, tags = %s, changed = CURRENT_TIMESTAMP(3) WHERE code IN (%s, %s)",
            (self._dice.choice(("", "new", "sale,heavy", "new,sale,heavy,fragile")), self._code(), self._code()),
        )
        return int(cursor.rowcount)

    def _change_customer(self, cursor: Cursor) -> int:
        cursor.execute(
            f"UPDATE {self._db}.customers SET credit = credit - 1.25, vip = NOT vip, born = NULL WHERE id = %s", (self._customer(),)
        )
        return int(cursor.rowcount)

    def _new_customer(self, cursor: Cursor) -> int:
        cursor.execute(
            f"INSERT INTO {self._db}.customers (email, name, country, created) VALUES (%s, %s, 'FR', {self._statements.now})",
            (f"new{self._dice.getrandbits(40)}@example.com", "Nouvelle 客户 🙂"),
        )
        return 1

    def _cancel_order(self, cursor: Cursor) -> int:
        order = self._order()
        cursor.execute(f"DELETE FROM {self._db}.order_items WHERE order_id = %s", (order,))
        items = int(cursor.rowcount)
        cursor.execute(f"DELETE FROM {self._db}.orders WHERE id = %s", (order,))
        return items + int(cursor.rowcount)

    def _change_items(self, cursor: Cursor) -> int:
        cursor.execute(f"UPDATE {self._db}.order_items SET quantity = quantity + 1, weight = NULL WHERE order_id = %s", (self._order(),))
        return int(cursor.rowcount)

    def _write_everything(self, cursor: Cursor) -> int:
        row = random_row(self._dice, flavor=self._flavor)
        cursor.execute(insert_text(self._db, list(row), 1), list(row.values()))
        return 1

    def _change_everything(self, cursor: Cursor) -> int:
        row = random_row(self._dice, flavor=self._flavor)
        some = dict(self._dice.sample(sorted(row.items(), key=lambda item: item[0]), 5))
        assignments = ", ".join(f"{name} = %s" for name in some)
        cursor.execute(f"UPDATE {self._db}.{EVERYTHING} SET {assignments} WHERE id = %s", [*some.values(), self._everything()])
        return int(cursor.rowcount)

    def _delete_everything(self, cursor: Cursor) -> int:
        cursor.execute(f"DELETE FROM {self._db}.{EVERYTHING} WHERE id = %s", (self._everything(),))
        return int(cursor.rowcount)

    def _rename_product(self, cursor: Cursor) -> int:
        """Change a text key, in half of the cases only its letter case.

        The server's collation takes the latter for the same key.
        """
        at = self._dice.randrange(len(self._codes))
        old = self._codes[at]
        new = old.swapcase() if coin(self._dice) else f"{old[:30]}~{self._dice.randint(0, 99999)}"
        cursor.execute(f"UPDATE {self._db}.products SET code = %s WHERE code = %s", (new, old))
        self._codes[at] = new
        self.key_changes += cursor.rowcount
        return int(cursor.rowcount)

    def _move_item(self, cursor: Cursor) -> int:
        """Change a part of a composite key."""
        cursor.execute(self._statements.move_item.format(db=self._db), (self._order(),))
        self.key_changes += cursor.rowcount
        return int(cursor.rowcount)

    def _move_customer(self, cursor: Cursor) -> int:
        """Move a numeric key to beyond the range of the dump."""
        cursor.execute(f"UPDATE {self._db}.customers SET id = id + 100000000 WHERE id = %s", (self._customer(),))
        self.key_changes += cursor.rowcount
        return int(cursor.rowcount)

    def _delete_and_insert(self, cursor: Cursor) -> int:
        order = self._order()
        cursor.execute(f"DELETE FROM {self._db}.order_items WHERE order_id = %s AND line = 0", (order,))
        deleted = cursor.rowcount
        if deleted:
            cursor.execute(f"INSERT INTO {self._db}.order_items VALUES (%s, 0, 'again', 1, 0.5, 0.25)", (order,))
        return 2 * int(deleted)

    def _change_nothing(self, cursor: Cursor) -> int:
        cursor.execute(f"UPDATE {self._db}.customers SET name = name WHERE id = %s", (self._customer(),))
        return 0

    def _roll_back(self, cursor: Cursor) -> int:
        cursor.execute(f"UPDATE {self._db}.customers SET name = 'never' WHERE id = %s", (self._customer(),))
        cursor.execute("ROLLBACK")
        return 0

    def _mark_many(self, cursor: Cursor) -> int:
        """Update many rows with one statement, which gives row events of many rows."""
        first = self._order()
        cursor.execute(f"UPDATE {self._db}.orders SET comment = %s WHERE id BETWEEN %s AND %s", (self._comment(), first, first + 150))
        return int(cursor.rowcount)

    def _change_country(self, cursor: Cursor) -> int:
        cursor.execute(f"UPDATE {self._db}.countries SET vat = %s WHERE code IN ('AA', 'AD', 'AG')", (self._dice.randint(0, 9999) / 100,))
        return int(cursor.rowcount)

    def _customer(self) -> int:
        return self._dice.randint(1, self._sizes.customers)

    def _order(self) -> int:
        return self._dice.randint(1, self._sizes.orders)

    def _everything(self) -> int:
        return self._dice.randint(1, max(2, self._sizes.everything))

    def _code(self) -> str:
        return self._dice.choice(self._codes)

    def _comment(self) -> str | None:
        return None if self._dice.random() < 0.3 else f"changed {self._dice.getrandbits(50)} – ж"  # noqa: PLR2004 - a share


@contextlib.contextmanager
def _again_after_a_lost_race(connection: Any) -> Iterator[None]:
    """Roll back a transaction that lost a race inside the block, so that it can be retried."""
    try:
        yield
    except Exception as e:
        if not is_lost_race(e):
            raise
        connection.rollback()
