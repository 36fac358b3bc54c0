"""Compiled JSON texts are those of the plain reader, or it is asked: for any document, and for any damage to one."""

import json
import struct

import pytest
from dblog.dialects.mysql.binlog._fast import json_doubts, json_texts
from dblog.dialects.mysql.values.binary_json import text_of_binary, text_of_text
from dblog.dialects.mysql.wire.json_kinds import doubtful_rows, doubts, with_final_text
from dblog.dialects.mysql.wire.protocol import length_encoded, packets
from dblog.errors import DefiniteError
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.mysql_columns import binary_json

doubles = st.floats(allow_nan=False, allow_infinity=False) | st.floats(-1e7, 1e7) | st.integers(-(10**9), 10**9).map(lambda n: n / 1000)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | doubles
    | st.text(max_size=20)
    | st.text('\x00\x1f"\\\n\té€😀a', max_size=9)
)
documents = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=8), inner, max_size=5), max_leaves=20
)


def plain(read, raw):
    try:
        return read(raw)
    except DefiniteError:
        return None


@given(documents, st.booleans())
@example([1e7, 9999999.5, 0.001, 0.0009, 1e22, 123456789.125, -0.0, 5e-324, 1e299], False)
def test_a_binary_document_has_the_plain_readers_text(document, large):
    raw = binary_json(document, large=large)

    compiled, _ = json_texts(raw)

    assert compiled in {None, text_of_binary(raw)}


def has_extreme_doubles(document):
    """The plain reader writes them: nearer to 0 than a thousandth, or of 300 digits."""
    if isinstance(document, float):
        return document != 0 and not 1e-3 <= abs(document) < 1e300
    inner = document.values() if isinstance(document, dict) else document if isinstance(document, list) else ()
    return any(map(has_extreme_doubles, inner))


@given(documents.filter(lambda d: not has_extreme_doubles(d)), st.booleans())
@example([0.001, -9999999.5, 1e7, -1e299, 0.0, -0.0], False)
def test_common_documents_need_no_plain_reader(document, large):
    assert json_texts(binary_json(document, large=large))[0] is not None


@given(documents, st.integers(0, 400), st.integers(0, 255), st.integers(0, 60))
def test_a_damaged_binary_document_is_never_read_otherwise_than_by_the_plain_reader(document, at, byte, cut):
    raw = bytearray(binary_json(document))
    raw[at % len(raw)] = byte
    damaged = bytes(raw[: len(raw) - cut % len(raw)])

    compiled, _ = json_texts(damaged)

    assert compiled is None or compiled == plain(text_of_binary, damaged)


@pytest.mark.parametrize(
    "text", ["0.00", "-0.50", "123456789.123456789", "99999999999999999999.5", "-7", "0.000000000000000000000000000001", "0.125"]
)
def test_decimals_inside_have_all_their_digits(text):
    whole, _, fraction = text.lstrip("-").partition(".")
    precision, scale = max(1, len(whole)) + len(fraction), len(fraction)
    raw = b"\x0f\xf6" + _length(packed := bytes([precision, scale]) + _packed(text, precision, scale)) + packed

    assert text_of_binary(raw) == text
    assert json_texts(raw)[0] == text


def _length(raw):
    return bytes([len(raw)])


def _packed(text, precision, scale):
    """MySQL's packed decimal (strings/decimal.cc): groups of nine digits, the first and last of fewer."""
    whole, _, fraction = text.lstrip("-").partition(".")
    whole, fraction = whole.rjust(precision - scale, "0"), fraction.ljust(scale, "0")
    width = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4]
    head, tail = len(whole) % 9, len(fraction) % 9
    groups = ([whole[:head]] if head else []) + [whole[i : i + 9] for i in range(head, len(whole), 9)]
    groups += [fraction[i : i + 9] for i in range(0, len(fraction) - tail, 9)] + ([fraction[-tail:]] if tail else [])
    raw = bytearray(b"".join(int(group).to_bytes(width[len(group)], "big") for group in groups))
    if text.startswith("-"):
        raw = bytearray(byte ^ 0xFF for byte in raw)
    raw[0] ^= 0x80
    return bytes(raw)


@given(documents, st.sampled_from([None, 1, "\t"]), st.booleans())
@example("base64:type15:AAAA", None, False)
@example([0.001, 0.0005, 12345678.5, 1234567.5, 1e30, -0.0], None, False)
def test_printed_documents_have_the_plain_readers_text(document, indent, ascii_only):
    raw = json.dumps(document, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "replace")

    assert json_texts(raw)[1] in {None, text_of_text(raw)}


@given(
    st.lists(
        st.sampled_from(
            [
                "1.10",
                "0.125",
                "12",
                "-3.50",
                '"a b"',
                '"\\"x\\n"',
                "true",
                "null",
                "7.0",
                "01.5",
                "1.",
                ".5",
                "-",
                "1e5",
                "tru",
                "nul",
                '"',
                "2.5x",
            ]
        ),
        max_size=6,
    ),
    st.sampled_from([", ", " ", ":", "[", "} "]),
)
def test_pieces_of_printed_documents_are_cut_as_the_plain_reader_cuts_them(pieces, between):
    raw = between.join(pieces).encode()

    assert json_texts(raw)[1] in {None, text_of_text(raw)}


@given(st.binary(max_size=60))
def test_any_bytes_are_read_alike_or_left_to_the_plain_reader(raw):
    binary, text = json_texts(raw)

    assert binary is None or binary == plain(text_of_binary, raw)
    assert text is None or text == text_of_text(raw)


def test_a_document_that_leads_in_circles_is_left_to_the_plain_reader():
    circle = struct.pack("<BHHBH", 2, 1, 200, 2, 0) + bytes(200)

    assert json_texts(circle)[0] is None


temporal = st.datetimes().map(lambda d: d.isoformat(" ", "microseconds")) | st.times().map(lambda t: f"-{t:%H:%M:%S}.{t.microsecond:06}")
lookalikes = st.recursive(
    scalars | temporal | st.sampled_from(["base64:type15:AA==", "1:2:3.000000", "2024-01-01 10:00:00,000000"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3) | temporal, inner, max_size=3),
    max_leaves=8,
)
kinds = [(245, None), (253, b"0.0001"), (3, b"1234"), (1, b"1"), (8, b"12345678"), (12, b"\x04abcd"), (246, b"123456789.5")]


@settings(max_examples=60)
@given(st.lists(st.lists(st.none() | lookalikes, min_size=len(kinds), max_size=len(kinds)), min_size=1, max_size=4))
@example([["2024-01-01 10:00:00.000000"] * 7, [12345678.5] * 7, [0.0001] * 7, [None] * 7])
def test_no_row_with_a_value_of_doubtful_kind_is_overlooked(rows):
    packed = b"".join(packets(_row(row)) for row in rows)
    types = bytes(kind for kind, _ in kinds)

    exactly = doubtful_rows(packed, types)

    assert set(exactly) <= set(json_doubts(packed, types))
    assert [number for number, _ in exactly] == [
        number for number, row in enumerate(rows) if doubts(json.dumps(row[0]).encode()) and row[0] is not None
    ]


def _row(values):
    """A row of the binary protocol; only its JSON columns have the values, the others what looks like them, or NULL."""
    nulls = bytearray((len(kinds) + 9) // 8)
    out = b""
    for i, ((kind, raw), value) in enumerate(zip(kinds, values, strict=True)):
        if value is None:
            nulls[(i + 2) >> 3] |= 1 << ((i + 2) & 7)
        elif raw is None:
            out += length_encoded(json.dumps(value).encode())
        else:
            out += raw if kind in (1, 3, 8, 12) else length_encoded(raw)
    return b"\0" + bytes(nulls) + out


@given(lookalikes)
def test_a_document_whose_kinds_are_as_its_text_suggests_is_left_alone(document):
    text = json.dumps(document).encode()
    tokens = doubts(text)
    suggested = {path: "OPAQUE" if b"base64:" in token else "STRING" if token[:1] == b'"' else "DOUBLE" for path, token in tokens.items()}

    assert with_final_text(text, suggested) is None


@given(lookalikes)
def test_a_value_named_otherwise_changes_alone(document):
    text = json.dumps({"before": [1e30, "a b"], "value": document, "after": [1e-7, {"x": " "}]}).encode()
    kinds_of = {
        path: "BLOB" if b"base64:" in token else "DATETIME" if token[:1] == b'"' else "DECIMAL" for path, token in doubts(text).items()
    }

    final = with_final_text(text, kinds_of)

    if final is None:
        return
    assert text_of_text(final) == final[1:].decode()
    assert json_texts(final)[1] in {None, final[1:].decode()}
    assert json.loads(final[1:])["before"] == [1e30, "a b"]
    assert json.loads(final[1:])["after"] == [1e-7, {"x": " "}]
