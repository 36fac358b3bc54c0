"""Java's .properties text: every rule of java.util.Properties.load, each with a line that needs it."""

import pytest
from dblog.config.properties import parse_properties, read_properties
from dblog.errors import DefiniteError
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("a=1", {"a": "1"}),
        ("a = 1 ", {"a": "1 "}),
        ("a:1", {"a": "1"}),
        ("a 1", {"a": "1"}),
        ("a\t \f=  b c", {"a": "b c"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("a==b", {"a": "=b"}),
        ("a=b=c:d", {"a": "b=c:d"}),
        ("# note\n! note\n   # note\na=1", {"a": "1"}),
        ("a=1 # no note", {"a": "1 # no note"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=one,\\\n   two,\\\n   three", {"a": "one,two,three"}),
        ("a=back\\\\\nb=2", {"a": "back\\", "b": "2"}),
        ("a=end\\", {"a": "end"}),
        ("a=1,\\\n# no note\nb=2", {"a": "1,# no note", "b": "2"}),
        (r"a\ b\=c\:d=1", {"a b=c:d": "1"}),
        (r"a=\t\n\r\f\\\q", {"a": "\t\n\r\f\\q"}),
        (r"a=\u00e4\uD83D\uDE00", {"a": "ä😀"}),
        ("größe=ö", {"größe": "ö"}),
        ("", {}),
        ("\n\n  \n", {}),
    ],
)
def test_a_rule_of_the_format(text, properties):
    assert parse_properties(text) == properties


def test_a_bad_escape_is_refused():
    with pytest.raises(DefiniteError, match="four hexadecimal digits"):
        parse_properties(r"a=\u12g4")


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(DefiniteError, match=r"nothing\.properties cannot be read"):
        read_properties(tmp_path / "nothing.properties")


PLAIN = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\\"), max_size=20)


@given(st.dictionaries(PLAIN.filter(bool), PLAIN, max_size=5))
def test_what_is_written_escaped_comes_back(properties):
    def escaped(text):
        return "".join(f"\\{char}" if char in " =:#!\t\f" else char for char in text)

    text = "\n".join(f"{escaped(name)}={escaped(value)}" for name, value in properties.items())
    # An escaped t or f would be a tab or a form feed: those characters are not in the alphabet of escapes above.
    text = text.replace("\\\t", "\\t").replace("\\\f", "\\f")
    assert parse_properties(text) == properties
