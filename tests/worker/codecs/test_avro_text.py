"""The one text of an Avro schema: what must become equal, what must stay different, and what is no schema."""

import json

import pytest
from dblog.codecs.avro_text import canonical_text
from dblog.errors import DefiniteError

RECORD = {
    "type": "record",
    "name": "Envelope",
    "namespace": "shop.orders",
    "doc": "größer",
    "fields": [
        {
            "name": "before",
            "type": [
                "null",
                {"type": "record", "name": "Value", "fields": [{"name": "id", "type": "long"}], "connect.name": "shop.orders.Value"},
            ],
            "default": None,
        },
        {"name": "after", "type": ["null", "Value"], "default": None},
        {
            "name": "price",
            "type": {"type": "bytes", "scale": 2, "connect.name": "org.apache.kafka.connect.data.Decimal", "logicalType": "decimal"},
        },
        {"name": "state", "type": {"type": "enum", "name": "State", "namespace": "other", "symbols": ["A", "B"], "default": "A"}},
        {"name": "again", "type": "other.State"},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 4}},
        {"name": "list", "type": {"type": "array", "items": {"type": "map", "values": "string"}}},
    ],
    "connect.version": 1,
    "connect.name": "shop.orders.Envelope",
}


def test_the_text_of_avros_own_to_string_stays_as_it_is():
    # Written by Avro Java 1.11's Schema.toString() for the same schema (attribute order: its toJson).
    text = (
        '{"type":"record","name":"Envelope","namespace":"shop.orders","doc":"größer","fields":['
        '{"name":"before","type":["null",{"type":"record","name":"Value","fields":[{"name":"id","type":"long"}],'
        '"connect.name":"shop.orders.Value"}],"default":null},'
        '{"name":"after","type":["null","Value"],"default":null},'
        '{"name":"price","type":{"type":"bytes","scale":2,"connect.name":"org.apache.kafka.connect.data.Decimal","logicalType":"decimal"}},'
        '{"name":"state","type":{"type":"enum","name":"State","namespace":"other","symbols":["A","B"],"default":"A"}},'
        '{"name":"again","type":"other.State"},'
        '{"name":"hash","type":{"type":"fixed","name":"Hash","size":4}},'
        '{"name":"list","type":{"type":"array","items":{"type":"map","values":"string"}}}],'
        '"connect.version":1,"connect.name":"shop.orders.Envelope"}'
    )

    assert canonical_text(json.dumps(RECORD)) == text
    assert canonical_text(text) == text


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('"string"', ' "string" '),
        ('"string"', "string"),
        ('"string"', '{"type":"string"}'),
        ('{"type":"array","items":"int"}', '{ "items" : {"type":"int"}, "type":"array" }'),
        (
            '{"type":"record","name":"a.b.C","fields":[]}',
            '{"fields":[],"name":"C","namespace":"a.b","type":"record"}',
        ),
        (
            '{"type":"record","name":"C","namespace":"a","fields":[{"name":"x","type":["null","a.C"]}]}',
            '{"type":"record","name":"C","namespace":"a","fields":[{"type":["null","C"],"name":"x","order":"ascending"}]}',
        ),
    ],
)
def test_texts_of_one_schema_are_one(one, other):
    assert canonical_text(one) == canonical_text(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"type":"string","a":1}', '"string"'),
        ('{"type":"record","name":"C","fields":[],"doc":"x"}', '{"type":"record","name":"C","fields":[]}'),
        (
            '{"type":"record","name":"C","fields":[{"name":"x","type":"int","default":1}]}',
            '{"type":"record","name":"C","fields":[{"name":"x","type":"int"}]}',
        ),
    ],
)
def test_what_a_reader_can_see_makes_a_difference(one, other):
    assert canonical_text(one) != canonical_text(other)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "7",
        "null7",
        '"nothing"',
        '{"name":"x"}',
        '{"type":"record","name":"C"}',
        '{"type":"record","name":"9C","fields":[]}',
        '{"type":"record","name":"C","fields":[{"name":"a-b","type":"int"}]}',
        '{"type":"record","name":"C","fields":[{"name":"a","type":"int"},{"name":"a","type":"int"}]}',
        '{"type":"record","name":"C","fields":[{"name":"a"}]}',
        '{"type":"enum","name":"E","symbols":["A","A"]}',
        '{"type":"fixed","name":"F","size":"4"}',
        '["int","int"]',
        '["int",["null"]]',
        '{"type":"array"}',
        '[{"type":"fixed","name":"F","size":1},{"type":"record","name":"R","fields":[{"name":"f","type":{"type":"fixed","name":"F","size":2}}]}]',
        '{"type":"record","name":"C","doc":"half a pair: \\ud800","fields":[]}',
        '{"type":"array","items":' * 5000 + '"int"' + "}" * 5000,
    ],
)
def test_what_is_no_schema_is_refused(text):
    with pytest.raises(DefiniteError):
        canonical_text(text)


def test_a_name_defined_elsewhere_is_known_by_reference():
    text = '{"type":"record","name":"C","fields":[{"name":"x","type":"other.State"}]}'

    assert canonical_text(text, names={"other.State": {}}) == text
    with pytest.raises(DefiniteError):
        canonical_text(text)


def nested_records(levels):
    text = '"int"'
    for number in range(levels):
        text = json.dumps({"type": "record", "name": f"R{number}", "fields": [{"name": "f", "type": ["null", json.loads(text)]}]})
    return text


def test_what_is_nested_as_deep_as_tables_and_documents_are_is_a_schema():
    assert canonical_text(nested_records(25)) == canonical_text(canonical_text(nested_records(25)))


@pytest.mark.parametrize(
    "text",
    [
        nested_records(95),
        '{"type":"record","name":"C","fields":[],"property":' + "[" * 900 + "]" * 900 + "}",
        '{"type":"record","name":"C","fields":[{"name":"a","type":"int","default":' + '{"a":' * 900 + "1" + "}" * 900 + "}]}",
    ],
)
def test_what_is_nested_too_deeply_is_refused_however_deep_its_reader_stands(text):
    def standing_deep(frames):
        return canonical_text(text) if frames == 0 else standing_deep(frames - 1)

    for frames in (0, 100, 400):
        with pytest.raises(DefiniteError):
            standing_deep(frames)
    assert canonical_text('"int"') == '"int"'


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"type": "array", "items": ' * 201 + '"int"' + "}" * 201, "nested too deeply"),
        ('{"type": "int", "x": ' + "[" * 900 + "]" * 900 + "}", "nested too deeply"),
        ("[" * 100_000, "not JSON"),
        ('{"type": "int", "x": ' + "9" * 5000 + "}", "not JSON"),
        ('{"type": "int", "x": NaN}', "not JSON"),
        ('{"type": "int", "x": -Infinity}', "not JSON"),
        ('{"type": "int", "x": 1e999}', "a number that is too large"),
        (r'{"type": "int", "x": "\ud800"}', "not Unicode"),
        (r'{"type": "int", "\udc00": 1}', "not Unicode"),
        ('{"type": "record", "name": "R", "namespace": {"a": 1}, "fields": []}', "namespace of R"),
        ('{"type": "fixed", "name": "R", "namespace": [1], "size": 1}', "namespace of R"),
        ('{"type": "record", "name": "R", "aliases": 5, "fields": []}', "aliases of R"),
        ('{"type": "record", "name": "R", "aliases": ["a", {}], "fields": []}', "aliases of R"),
        ('{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int", "aliases": 7}]}', "aliases of a of R"),
        ('{"type": "enum", "name": "E", "symbols": [{}, [1]]}', "different symbols"),
        ('{"type": "fixed", "name": "F", "size": true}', "needs a size"),
        ('{"type": "fixed", "name": "F", "size": 99999999999}', "needs a size"),
        ('{"type": "R"}', "the type R is not defined"),
    ],
)
def test_what_later_readers_could_not_take_is_refused(text, reason):
    with pytest.raises(DefiniteError, match=reason):
        canonical_text(text)
