"""Tables in which every column type comes right before and right after every type, itself included.

A table map describes the charsets, signs and members of columns of a kind by their order. A wrongly
counted column therefore shifts the description of all later ones, so tests vary the order of types.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PairedType:
    """A column type, and an SQL literal that no other charset, sign or width reads alike."""

    ddl: str
    literal: str


_COMMON = [
    PairedType("tinyint", "-7"),
    PairedType("smallint unsigned", "65000"),
    PairedType("mediumint", "-70000"),
    PairedType("int unsigned", "4000000000"),
    PairedType("bigint unsigned", "18446744073709551615"),
    PairedType("decimal(9,3)", "-1234.567"),
    PairedType("float", "1.5"),
    PairedType("double", "-0.1"),
    PairedType("year", "2026"),
    PairedType("bit(9)", "b'101010101'"),
    PairedType("date", "'2026-11-23'"),
    PairedType("time(3)", "'-11:22:33.456'"),
    PairedType("datetime(6)", "'2026-11-23 01:02:03.456789'"),
    PairedType("timestamp(2) NULL", "'2026-11-23 01:02:03.45'"),
    PairedType("char(5) CHARACTER SET gbk", "'汉字'"),
    PairedType("varchar(12) CHARACTER SET utf8mb4", "'äß😀'"),
    PairedType("varchar(300) CHARACTER SET latin1", "'äöü'"),
    PairedType("binary(8)", "x'c3ff00a100000000'"),
    PairedType("varbinary(6)", "x'00ff10'"),
    PairedType("tinytext CHARACTER SET utf16le", "'äß'"),
    PairedType("text CHARACTER SET utf8mb4", "'漢字'"),
    PairedType("mediumtext CHARACTER SET koi8r", "'Привет'"),
    PairedType("longtext CHARACTER SET sjis", "'漢字かな'"),
    PairedType("tinyblob", "x'fe00'"),
    PairedType("blob", "x'e4'"),
    PairedType("mediumblob", "x'f6fc'"),
    PairedType("longblob", "x'00'"),
    PairedType("enum('汉','b''c','é') CHARACTER SET gb2312", "'汉'"),
    PairedType("enum('漢','b') CHARACTER SET utf16le", "'漢'"),
    PairedType("set('ア','b','漢') CHARACTER SET sjis", "'ア,漢'"),
    PairedType("set('x','ä') CHARACTER SET latin1", "'x,ä'"),
    PairedType("point", "ST_GeomFromText('POINT(1 2)')"),
    PairedType("geometry", "ST_GeomFromText('LINESTRING(0 0,1 2)')"),
]
_OWN = {
    "mysql": [PairedType("json", "'{\"a\":1}'"), PairedType("vector(3)", "STRING_TO_VECTOR('[1,2,3]')")],
    "mariadb": [
        PairedType("json", "'{\"a\":1}'"),
        PairedType("uuid", "'01234567-89ab-4def-8123-456789abcdef'"),
        PairedType("inet6", "'::ffff:1.2.3.4'"),
        PairedType("inet4", "'1.2.3.4'"),
        PairedType("varchar(30) COMPRESSED CHARACTER SET gbk", "'汉字'"),
        PairedType("varchar(300) COMPRESSED CHARACTER SET utf8mb4", "REPEAT('aß', 60)"),
        PairedType("varbinary(40) COMPRESSED", "REPEAT(x'fe00', 20)"),
        PairedType("tinytext COMPRESSED CHARACTER SET latin1", "'äöü'"),
        PairedType("text COMPRESSED CHARACTER SET utf8mb4", "REPEAT('äß', 200)"),
        PairedType("mediumtext COMPRESSED CHARACTER SET sjis", "'漢字'"),
        PairedType("longtext COMPRESSED CHARACTER SET utf16", "'äß'"),
        PairedType("tinyblob COMPRESSED", "x'fe00'"),
        PairedType("blob COMPRESSED", "REPEAT(x'e4', 300)"),
        PairedType("mediumblob COMPRESSED", "x'f6fc'"),
        PairedType("longblob COMPRESSED", "x'00'"),
    ],
}


def paired_types(flavor: str) -> list[PairedType]:
    """Return every type of a server: signed and unsigned numbers, text in several charsets."""
    return [*_COMMON, *_OWN[flavor]]


def every_pair_in_a_row(items: Sequence[T]) -> list[T]:
    """Return a sequence in which each ordered pair of items is adjacent exactly once.

    A pair may be of equal items. The sequence is an Eulerian circuit.
    """
    left = {index: list(range(len(items))) for index in range(len(items))}
    stack, circuit = [0], []
    while stack:
        if left[stack[-1]]:
            stack.append(left[stack[-1]].pop())
        else:
            circuit.append(stack.pop())
    return [items[index] for index in reversed(circuit)]


def in_tables(columns: Sequence[T], *, columns_max: int) -> list[Sequence[T]]:
    """Cut the sequence into tables of at most `columns_max` columns.

    The last column of a table is the first of the next one, so no pair is lost.
    """
    return [columns[at : at + columns_max] for at in range(0, len(columns) - 1, columns_max - 1)]
