"""Runs the shop in a cluster: fills a MariaDB once, and writes to it until it is stopped.

Run `python -m demo.shopkeeper HOST:PORT USER PASSWORD_FILE RATE_PER_S`. The chart runs it in the
worker's image, which has a driver for the database and the necessary files of this package. It can
be started again at any time; a filled shop keeps its rows. The writes end after some days, so that
a forgotten demo does not fill a disk.
"""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path
from typing import Any

import pymysql

from demo.connection import Connect
from demo.load import Load
from demo.shop import NUMBERS_DATABASE, Sizes, create_shop

SIZES = Sizes(customers=2_000, orders=4_000, products=500, everything=300)
"""Sizes of the shop, which even a small node dumps in seconds."""
CHANGES_MAX = 2_000_000
SAID_EVERY_S = 30.0
_RETRY_S = 1.0
_REFUSED_LOGIN = 1045


def wait_for(connect: Connect, stop: threading.Event, *, where: str) -> None:
    """Wait until the database accepts a session, and print the obstacle every half a minute.

    Raise SystemExit if it refuses the login.
    """
    tries = 0
    while not stop.is_set():
        try:
            with connect():
                return
        except pymysql.err.OperationalError as e:
            if e.args[0] == _REFUSED_LOGIN:
                sys.exit(
                    f"the database at {where} refuses the login of the shop: it takes its passwords from the Secret when it starts, so start it again"
                )
            if tries % int(SAID_EVERY_S / _RETRY_S) == 0:
                _say(f"waiting for the database at {where}: {e.args[-1]}")
        tries += 1
        stop.wait(_RETRY_S)


def open_shop(connect: Connect, sizes: Sizes = SIZES) -> bool:
    """Create and fill the shop if necessary. Return False if it was filled before."""
    with connect() as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = 'filled'", (NUMBERS_DATABASE,)
        )
        if cursor.fetchone()[0]:
            return False
    create_shop(connect, sizes=sizes, flavor="mariadb")
    with connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {NUMBERS_DATABASE}.filled (n int PRIMARY KEY)")
    return True


def main(address: str, user: str, password_file: str, rate_per_s: str) -> int:
    """Run until SIGTERM. An error of the writer ends the process, so that it is started again."""
    host, _, port = address.rpartition(":")
    password = Path(password_file).read_text(encoding="utf-8").strip()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())

    def connect() -> Any:
        return pymysql.connect(host=host, port=int(port), user=user, password=password, charset="utf8mb4", connect_timeout=5)

    wait_for(connect, stop, where=address)
    if stop.is_set():
        return 0
    _say(f"filled the shop: {SIZES.total:,} rows" if open_shop(connect) else "the shop is there already")
    load = Load(
        connect, flavor="mariadb", sizes=SIZES, rate_per_s=float(rate_per_s), changes_max=CHANGES_MAX, seed=threading.get_native_id()
    )
    load.start()
    while not (stop.wait(SAID_EVERY_S) or load.ended):
        _say(f"{load.changes:,} rows written")
    if load.ended and load.error is None:
        _say(f"{load.changes:,} rows written, and no more: the shop closes after so many")
        stop.wait()
    load.stop()
    return 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
