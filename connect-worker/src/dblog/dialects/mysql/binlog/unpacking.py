"""The decompression of MySQL's TRANSACTION_PAYLOAD and MariaDB's compressed events, in pieces of
bounded size.

Both log decoders use it, so that a transaction of gigabytes is never in memory as a whole (I6): a
payload is read in pieces of 256 KiB. Its packed bytes, at most 1 GiB by the server's limit, are in
a temporary file if they fill more than one packet. No part of an event may be returned before its
checksum is verified, and that is at its end. Unpacking packets as they arrive and undoing rows
after a wrong checksum was rejected, because records that were sent cannot be undone. The
compressor's own checksum is no help, since the server writes none.

Errors are ValueErrors that state what is wrong; the decoders add file and position. Rule sources:
MySQL libs/mysql/binlog/event/codecs/binary.cpp (fields of the payload's header) and
compression/base.h (kinds), MariaDB sql/log_event.cc (``binlog_buf_compress``,
``query_event_uncompress``, ``row_log_event_uncompress``).
"""

from __future__ import annotations

import weakref
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Final

from backports import zstd

if TYPE_CHECKING:
    from collections.abc import Callable

NEVER_PACKED: Final = frozenset({4, 15, 26, 27, 33, 34, 35, 40, 41, 42, 162})
"""Types that are never inside a payload: ROTATE, FORMAT_DESCRIPTION, INCIDENT, heartbeats, GTIDs
and payloads. They surround transactions or show a position in the log.
"""

PIECE_BYTES: Final = 256 * 1024
"""The most bytes of a payload that are unpacked at a time."""

_INPUT_BYTES = 64 * 1024
_WINDOW_LOG_MAX = 27
"""The largest window, as a power of two: 128 MiB, for the highest compression level that a server
is known to use.
"""
_ZSTD, _NONE = 0, 255
_END, _SIZE, _KIND, _UNPACKED_SIZE = 0, 1, 2, 3
_INFLATED_MAX = 1 << 30
_HEAD_BYTES_MAX = 1024


@dataclass(slots=True)
class _Fields:
    kind: int = -1
    size: int = -1
    unpacked: int = -1


class Payload:
    """The events inside the body of a TRANSACTION_PAYLOAD event, as bytes in pieces."""

    def __init__(self, body: bytes | FilePart) -> None:
        fields, at = _fields(body[:_HEAD_BYTES_MAX])
        view = body.behind(at) if isinstance(body, FilePart) else memoryview(body)[at:]
        if fields.size not in (-1, len(view)):
            message = f"a compressed transaction of {len(view)} bytes that claims {fields.size}"
            raise ValueError(message)
        self._left = fields.unpacked if fields.unpacked >= 0 else None
        self._read: Callable[[], bytes]
        if fields.kind == _ZSTD:
            self._read = _Zstd(view).read
        elif fields.kind == _NONE:
            self._read = _Plain(view).read
        else:
            message = f"a transaction compressed in a way that dblog does not know (kind {fields.kind})"
            raise ValueError(message)

    def read(self) -> bytes:
        """Return the next bytes, at most PIECE_BYTES; b"" at the end. Raise ValueError if they
        cannot be unpacked, or if the total length is not that of the header.
        """
        piece = self._read()
        if self._left is not None:
            self._left -= len(piece)
            if self._left < 0 or (not piece and self._left):
                message = "a compressed transaction that does not have the length it claims"
                raise ValueError(message)
        return piece


class Spool:
    """A temporary file that is closed with its last reader."""

    def __init__(self, file: BinaryIO) -> None:
        self.write, self.seek, self.read = file.write, file.seek, file.read
        weakref.finalize(self, file.close)


class FilePart:
    """A range of a file that can be sliced like bytes."""

    def __init__(self, file: Spool, start: int, end: int) -> None:
        self._file, self._start, self._end = file, start, end

    def __len__(self) -> int:
        return self._end - self._start

    def __getitem__(self, part: slice) -> bytes:
        start, stop, _ = part.indices(len(self))
        self._file.seek(self._start + start)
        return self._file.read(max(stop - start, 0))

    def behind(self, at: int) -> FilePart:
        """Return the part from offset ``at`` on."""
        return FilePart(self._file, self._start + at, self._end)

    def crc32(self) -> int:
        """Return zlib's CRC32 of the whole part."""
        out = 0
        for at in range(0, len(self), PIECE_BYTES):
            out = zlib.crc32(self[at : at + PIECE_BYTES], out)
        return out


class _Plain:
    def __init__(self, view: memoryview | FilePart) -> None:
        self._view, self._at = view, 0

    def read(self) -> bytes:
        piece = bytes(self._view[self._at : self._at + PIECE_BYTES])
        self._at += len(piece)
        return piece


class _Zstd:
    """A reader of one or several consecutive Zstandard frames."""

    def __init__(self, view: memoryview | FilePart) -> None:
        self._view, self._at = view, 0
        self._decompressor = _decompressor()

    def read(self) -> bytes:
        try:
            while True:
                if self._decompressor.eof:
                    self._at -= len(self._decompressor.unused_data)
                    if self._at >= len(self._view):
                        return b""
                    self._decompressor = _decompressor()
                part: memoryview | bytes = self._view[:0]
                if self._decompressor.needs_input:
                    part = self._view[self._at : self._at + _INPUT_BYTES]
                    self._at += len(part)
                    if not part:
                        message = "a compressed transaction that ends too early"
                        raise ValueError(message)
                piece = self._decompressor.decompress(part, PIECE_BYTES)
                if piece:
                    return piece
        except zstd.ZstdError as e:
            message = f"a compressed transaction that cannot be unpacked ({e})"
            raise ValueError(message) from e


def _decompressor() -> zstd.ZstdDecompressor:
    return zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _WINDOW_LOG_MAX})


def _fields(body: bytes) -> tuple[_Fields, int]:
    """Read the header: fields of type, length and value (packed integers), up to the end mark.
    Return the offset of the packed bytes too.
    """
    out, at = _Fields(), 0
    while True:
        field, at = _packed(body, at)
        if field == _END:
            return out, at
        length, at = _packed(body, at)
        if at + length > len(body):
            raise _too_short()
        value = body[at : at + length]
        at += length
        if field == _SIZE:
            out.size = _packed(value, 0)[0]
        elif field == _KIND:
            out.kind = _packed(value, 0)[0]
        elif field == _UNPACKED_SIZE:
            out.unpacked = _packed(value, 0)[0]


def _packed(raw: bytes, at: int) -> tuple[int, int]:
    first = raw[at] if at < len(raw) else 0xFF
    if first < 0xFB:  # noqa: PLR2004 - a number of one byte
        return first, at + 1
    size = {0xFC: 2, 0xFD: 3, 0xFE: 8}.get(first, 0)
    if not size or at + 1 + size > len(raw):
        raise _too_short()
    return int.from_bytes(raw[at + 1 : at + 1 + size], "little"), at + 1 + size


def _too_short() -> ValueError:
    return ValueError("a compressed transaction whose header is too short")


def inflated(packed: bytes) -> bytes:
    """Unpack a compressed event of MariaDB: one byte (0x80, kind in bits 4 to 6, bytes of the
    length), the length, zlib's stream.
    """
    first = packed[0] if packed else 0
    width = first & 7
    if not first & 0x80 or not 1 <= width <= 4 or 1 + width > len(packed):  # noqa: PLR2004 - as written by the server
        message = "a compressed event without its header"
        raise ValueError(message)
    if first & 0x70:
        message = f"an event compressed in a way that dblog does not know (kind {first >> 4 & 7})"
        raise ValueError(message)
    size = int.from_bytes(packed[1 : 1 + width], "big")
    if size > _INFLATED_MAX:
        message = f"a compressed event that claims {size} bytes"
        raise ValueError(message)
    stream = zlib.decompressobj()
    try:
        out = stream.decompress(memoryview(packed)[1 + width :], size + 1)
    except zlib.error as e:
        message = "a compressed event that cannot be unpacked"
        raise ValueError(message) from e
    if len(out) != size or not stream.eof:
        message = "a compressed event that does not have the length it claims"
        raise ValueError(message)
    return out
