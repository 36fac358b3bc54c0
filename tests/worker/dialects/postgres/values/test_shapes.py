"""Bit strings, points, geometries, vectors, and the geometric types that only include.unknown.datatypes shows."""

from struct import pack

import pytest
from dblog.dialects.postgres.values.fields import reader
from dblog.dialects.postgres.values.types import TypeModes, column_plan
from dblog.errors import BadRowsError
from dblog.model import Column, TableId
from hypothesis import given
from hypothesis import strategies as st


def read(name, text, *, nullable=True, length=None, **modes):
    settings = TypeModes(**modes)
    column = Column(name="c", type=name, type_text=name, nullable=nullable, length=length)
    return reader(column_plan(column, settings, TableId("public", "t")), settings)(text.encode())


@given(st.text("01", min_size=2, max_size=70))
def test_bits_are_little_endian_bytes_up_to_the_highest_one(text):
    raw = read("bit", text, length=len(text))

    assert int.from_bytes(raw, "little") == int(text, 2)
    assert not raw or raw[-1] != 0
    assert read("varbit", text) == raw


def test_one_bit_is_a_boolean_and_no_bit_in_its_place_null_or_an_error():
    assert [read("bit", text, length=1) for text in "01"] == [False, True]
    assert [read("varbit", text, length=1) for text in ("0", "1", "")] == [False, True, None]
    assert read("varbit", "", length=2) == b""
    with pytest.raises(BadRowsError, match=r"an empty varbit\(1\)"):
        read("varbit", "", length=1, nullable=False)


finite = st.floats(allow_nan=False)


@given(finite, finite)
def test_a_point_has_its_coordinates_and_its_wkb(x, y):
    texts = [repr(value).replace("inf", "Infinity") for value in (x, y)]

    assert read("point", f"({texts[0]},{texts[1]})") == {"x": x, "y": y, "wkb": pack("<BIdd", 1, 1, x, y), "srid": None}


@pytest.mark.parametrize(
    ("text", "srid"),
    [
        ("0101000020730C00001C7C613255DE6540787AA52C435C42C0", 3187),
        ("0101000000000000000000F03F0000000000000040", None),
        ("0020000001000010E63FF00000000000004000000000000000", 4326),
        ("010700000000000000", None),
    ],
)
def test_a_geometry_keeps_its_bytes_and_names_its_srid(text, srid):
    for name in ("geometry", "geography"):
        assert read(name, text) == {"wkb": bytes.fromhex(text), "srid": srid}


def test_a_geometry_without_shape_is_refused():
    with pytest.raises(BadRowsError, match="not one of type geometry"):
        read("geometry", "0101")


def test_vectors_are_doubles_or_floats():
    assert read("vector", "[1,2.5,-3e-05]") == [1.0, 2.5, -3e-05]
    assert read("halfvec", "[0.1,65504]") == [0.10000000149011612, 65504.0]
    assert read("sparsevec", "{1:1.5,3:2}/5") == {"dimensions": 5, "vector": {1: 1.5, 3: 2.0}}
    assert read("sparsevec", "{}/5") == {"dimensions": 5, "vector": {}}
    with pytest.raises(BadRowsError, match="not one of type vector"):
        read("vector", "1,2")


def test_entries_of_a_sparse_vector_are_in_the_order_of_a_map_that_was_made_for_so_many():
    assert list(read("sparsevec", "{1:1,2:1,9:1}/9")["vector"]) == [1, 9, 2]


def test_a_sparse_vector_whose_indexes_need_more_than_16_bits_is_null_or_an_error():
    assert read("sparsevec", "{7:1}/32767")["dimensions"] == 32767
    assert read("sparsevec", "{7:1}/32768") is None
    with pytest.raises(BadRowsError, match="more than 32767 dimensions"):
        read("sparsevec", "{7:1}/32768", nullable=False)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("circle", "<(10,20),1.5>", "<(10.0,20.0),1.5>"),
        ("box", "(1,4e+20),(-3.5,2)", "(1.0,4.0E20),(-3.5,2.0)"),
        ("lseg", "[(1,2),(3,4)]", "[(1.0,2.0),(3.0,4.0)]"),
        ("line", "{1,-1,0}", "{1.0,-1.0,0.0}"),
        ("path", "((1,Infinity),(NaN,0.0001))", "((1.0,Infinity),(NaN,1.0E-4))"),
        ("polygon", "((1,2),(3,4),(5,6))", "((1.0,2.0),(3.0,4.0),(5.0,6.0))"),
    ],
)
def test_geometric_types_are_printed_with_java_s_numbers_where_unknown_types_are_included(name, text, expected):
    assert read(name, text, include_unknown_datatypes=True) == expected.encode()
    assert read(name, text, include_unknown_datatypes=True, binary_handling_mode="hex") == expected.encode().hex()


def test_text_that_is_no_utf_8_has_replacement_characters():
    modes = TypeModes()
    column = Column(name="c", type="text", type_text="text", nullable=True)

    assert reader(column_plan(column, modes, TableId("public", "t")), modes)(b"a\xffb") == "a\ufffdb"
