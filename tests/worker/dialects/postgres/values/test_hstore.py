"""hstore as map and as JSON, in the order of Java's hash maps."""

import json

import pytest
from dblog.dialects.postgres.values.hstore import hstore_json, hstore_map
from dblog.dialects.postgres.values.java_maps import in_java_order, short_hash, string_hash
from hypothesis import given
from hypothesis import strategies as st

any_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5) | st.sampled_from(
    ['"', "\\", "=>", ", ", "NULL", ""]
)


def printed(entries):
    """As hstore_out does it."""

    def quoted(text):
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    return ", ".join(f"{quoted(key)}=>{'NULL' if value is None else quoted(value)}" for key, value in entries.items())


@given(st.dictionaries(any_text, st.none() | any_text, max_size=30))
def test_every_key_and_value_is_read_again(entries):
    assert hstore_map(printed(entries)) == entries
    assert json.loads(hstore_json(printed(entries))) == entries


@pytest.mark.parametrize("text", ["a=>1", '"a"=>1', '"a"', '"a"=>"1" "b"=>"2"', '"a"=>"1', '"a"=>null'])
def test_what_is_no_hstore_is_refused(text):
    with pytest.raises(ValueError):  # noqa: PT011 - it has no message
        hstore_map(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("key1", 3288498),
        ("hello world", 1794106052),
        ("\U0001f600", 1772899),
        ("polygenelubricants", -(2**31) & 0xFFFFFFFF),
    ],
)
def test_the_hash_of_a_text_is_java_s(text, expected):
    assert string_hash(text) == expected


def test_entries_lie_in_the_order_of_their_buckets_and_then_of_insertion():
    assert list(in_java_order({"key4": 1, "key5": 2}, string_hash)) == ["key5", "key4"]
    assert list(in_java_order({"b": 1, "a": 2, "q": 3}, string_hash)) == ["a", "q", "b"]  # 97, 98 and 113 are 1, 2 and 1 of 16
    assert list(in_java_order({"q": 1, "a": 2}, string_hash)) == ["q", "a"]


def test_a_map_of_more_than_three_quarters_of_its_buckets_has_twice_as_many():
    twelve = dict.fromkeys((16, *range(11)))
    thirteen = dict.fromkeys((16, *range(12)))

    assert list(in_java_order(twelve, short_hash))[:2] == [16, 0]
    assert list(in_java_order(thirteen, short_hash))[:2] == [0, 1]
    assert list(in_java_order({1: "", 2: "", 17: ""}, short_hash, capacity=3)) == [1, 17, 2]
    assert list(in_java_order({}, short_hash, capacity=0)) == []
