"""Passes connections on: `relay.py LISTEN=DIAL`, each side `tcp:HOST:PORT` or `unix:PATH`.

A network namespace has a loopback interface of its own, so a Pod cannot see a server that listens on the machine's. A socket file is seen from both
sides: one relay listens on the file and dials the server, the other listens on an address of the node and dials the file. A script of its own, with the
standard library alone, because it is started inside the namespace.
"""

import asyncio
import contextlib
import sys

_open: set[asyncio.Task[None] | None] = set()
"""Connections that are passed on. Without this, the collector ends one whose first side has closed, before the other side has answered."""


async def relay(listen: str, dial: str) -> asyncio.Server:
    """Accept at `listen`; each connection gets one to `dial`."""

    async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        _open.add(task)
        task.add_done_callback(_open.discard)
        try:
            far_reader, far_writer = await _connect(dial)
        except OSError:  # nobody listens there: the caller sees a closed connection, as it would without a relay
            writer.close()
            return
        await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))
        for open_side in (writer, far_writer):
            open_side.close()

    kind, address = listen.split(":", 1)
    if kind == "unix":
        return await asyncio.start_unix_server(accepted, address)
    host, port = address.rsplit(":", 1)
    return await asyncio.start_server(accepted, host, int(port))


async def _connect(dial: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    kind, address = dial.split(":", 1)
    if kind == "unix":
        return await asyncio.open_unix_connection(address)
    host, port = address.rsplit(":", 1)
    return await asyncio.open_connection(host, int(port))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Until one side ends; its end is passed on, so that the other may still answer."""
    with contextlib.suppress(OSError):
        while received := await reader.read(65536):
            writer.write(received)
            await writer.drain()
    with contextlib.suppress(OSError):
        writer.write_eof()


async def main(listen: str, dial: str) -> None:
    server = await relay(listen, dial)
    print("relaying", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1].split("=", 1)))
