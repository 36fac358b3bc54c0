# noqa: INP001  a program that the chart mounts nowhere: its text is the command of a container
"""Waits until a broker takes connections, and prints every 15 s for how long, why, and what to do: `wait_for_broker.py HOST:PORT REMEDY`."""

import socket
import sys
import time

SAID_FIRST_S = 5
"""A broker that starts beside it needs no words."""
SAID_EVERY_S = 15


def main(address: str, remedy: str) -> None:
    """Return once something listens at the address."""
    host, _, port = address.rpartition(":")
    began_s = time.monotonic()
    say_at_s = began_s + SAID_FIRST_S
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=3).close()
        except OSError as error:
            now_s = time.monotonic()
            if now_s >= say_at_s:
                sys.stdout.write(f"waiting for the broker {address}, for {now_s - began_s:.0f} s so far: {error}. {remedy}\n")
                sys.stdout.flush()
                say_at_s = now_s + SAID_EVERY_S
            time.sleep(0.5)
        else:
            sys.stdout.write(f"the broker {address} answers\n")
            return


if __name__ == "__main__":
    main(*sys.argv[1:])
