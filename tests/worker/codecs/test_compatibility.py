"""Avro schema resolution: each rule of the specification, against fastavro's reader where data can show it, and the levels."""

import io
import json
import resource
import time

import fastavro
import pytest
from dblog.codecs.compatibility import Level, SchemaVersion, check_level
from hypothesis import given
from hypothesis import strategies as st


def record(*fields, name="R", **more):
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name, kind, **more):
    return {"name": name, "type": kind, **more}


def read_problems(reader, writer):
    """Why data of the writer cannot be read with the reader."""
    found = check_level(SchemaVersion(json.dumps(reader)), [SchemaVersion(json.dumps(writer))], Level.BACKWARD)
    cannot_read = "The new schema cannot read data of an earlier one: "
    assert all(text.startswith(cannot_read) for text in found), found
    return [text.removeprefix(cannot_read) for text in found]


def readable(reader, writer):
    return not read_problems(reader, writer)


ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
NODE = record(field("next", ["null", "R"]), field("value", "int"))


@pytest.mark.parametrize(
    ("reader", "writer", "expected"),
    [
        ("int", "int", True),
        ("long", "int", True),
        ("double", "float", True),
        ("float", "long", True),
        ("int", "long", False),
        ("float", "double", False),
        ("string", "bytes", True),
        ("bytes", "string", True),
        ("string", "int", False),
        (["null", "long"], "int", True),
        (["null", "string"], "int", False),
        (["null", "int"], ["null", "int"], True),
        ("int", ["null", "int"], False),
        ("int", ["int"], True),
        ({"type": "array", "items": "long"}, {"type": "array", "items": "int"}, True),
        ({"type": "array", "items": "int"}, {"type": "array", "items": "string"}, False),
        ({"type": "map", "values": "long"}, {"type": "map", "values": "int"}, True),
        ({"type": "map", "values": "int"}, {"type": "array", "items": "int"}, False),
        ({**ENUM, "symbols": ["A", "B", "C"]}, ENUM, True),
        ({**ENUM, "symbols": ["A"]}, ENUM, False),
        ({**ENUM, "symbols": ["A"], "default": "A"}, ENUM, True),
        ({**ENUM, "name": "F"}, ENUM, False),
        ({**ENUM, "namespace": "x"}, ENUM, True),
        ({**ENUM, "name": "F", "aliases": ["E"]}, ENUM, True),
        ({"type": "fixed", "name": "F", "size": 4}, {"type": "fixed", "name": "F", "size": 4}, True),
        ({"type": "fixed", "name": "F", "size": 4}, {"type": "fixed", "name": "F", "size": 5}, False),
        (record(field("a", "int"), field("b", "int", default=1)), record(field("a", "int")), True),
        (record(field("a", "int"), field("b", "int")), record(field("a", "int")), False),
        (record(field("a", "int")), record(field("a", "int"), field("b", "int")), True),
        (record(field("b", "int", aliases=["a"])), record(field("a", "int")), True),
        (record(field("a", "int")), record(field("a", "string")), False),
        (record(), record(name="S"), False),
        (record(aliases=["S"]), record(name="S"), True),
        (NODE, NODE, True),
        (record(field("next", ["null", "R"]), field("value", "long")), NODE, True),
        (record(field("next", ["null", "R"]), field("value", "string")), NODE, False),
    ],
)
def test_a_rule_of_resolution(reader, writer, expected):
    assert readable(reader, writer) is expected


PLAIN = st.sampled_from(["int", "long", "float", "double", "string", "bytes", "boolean"])
KINDS = st.one_of(
    PLAIN,
    st.lists(PLAIN, min_size=1, max_size=3, unique=True).map(lambda branches: ["null", *branches]),
    PLAIN.map(lambda items: {"type": "array", "items": items}),
)
DEFAULTS = {"int": 1, "long": 1, "float": 1.0, "double": 1.0, "string": "x", "bytes": "x", "boolean": True}
VALUES = {"int": 5, "long": 5, "float": 1.5, "double": 1.5, "string": "s", "bytes": b"b", "boolean": False, "null": None}


@st.composite
def records(draw):
    names = draw(st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, unique=True))
    fields = []
    for name in names:
        kind = draw(KINDS)
        default = {"default": DEFAULTS[kind]} if isinstance(kind, str) and draw(st.booleans()) else {}
        fields.append(field(name, kind, **default))
    return record(*fields)


def values_of(kind):
    if isinstance(kind, list):
        return [VALUES[branch] for branch in kind]
    return [[VALUES[kind["items"]]]] if isinstance(kind, dict) else [VALUES[kind]]


@given(reader=records(), writer=records())
def test_what_is_called_readable_can_be_read(reader, writer):
    if not readable(reader, writer):
        return
    parsed_writer, parsed_reader = fastavro.parse_schema(writer), fastavro.parse_schema(reader)
    rows = [{f["name"]: values_of(f["type"])[0] for f in writer["fields"]}]
    rows += [{**rows[0], f["name"]: value} for f in writer["fields"] for value in values_of(f["type"])]
    for row in rows:
        data = io.BytesIO()
        fastavro.schemaless_writer(data, parsed_writer, row)
        data.seek(0)
        read = fastavro.schemaless_reader(data, parsed_writer, parsed_reader)
        assert set(read) == {f["name"] for f in reader["fields"]}


V1 = json.dumps(record(field("a", "int")))
V2_WITH_DEFAULT = json.dumps(record(field("a", "int"), field("b", "int", default=1)))
V2_WITHOUT = json.dumps(record(field("a", "int"), field("b", "int")))
V3_NARROW = json.dumps(record(field("b", "int", default=1)))


@pytest.mark.parametrize(
    ("level", "new", "earlier", "allowed"),
    [
        (Level.BACKWARD, V2_WITH_DEFAULT, [V1], True),
        (Level.BACKWARD, V2_WITHOUT, [V1], False),
        (Level.FORWARD, V2_WITHOUT, [V1], True),
        (Level.FORWARD, V1, [V2_WITHOUT], False),
        (Level.FULL, V2_WITH_DEFAULT, [V1], True),
        (Level.FULL, V2_WITHOUT, [V1], False),
        (Level.NONE, '"int"', [V1], True),
        # Only the last version counts, unless the level is transitive.
        (Level.BACKWARD, V2_WITHOUT, [V1, V2_WITHOUT], True),
        (Level.BACKWARD_TRANSITIVE, V2_WITHOUT, [V1, V2_WITHOUT], False),
        (Level.FORWARD, V3_NARROW, [V1, V2_WITH_DEFAULT], False),
        (Level.FULL_TRANSITIVE, V2_WITH_DEFAULT, [V1, V2_WITH_DEFAULT], True),
        (Level.BACKWARD, V1, [], True),
    ],
)
def test_levels(level, new, earlier, allowed):
    assert (not check_level(SchemaVersion(new), [SchemaVersion(text) for text in earlier], level)) is allowed


def test_a_problem_names_its_position():
    reader = record(field("a", record(field("x", "int"), field("y", "int"), name="Inner")))
    writer = record(field("a", record(field("x", "int"), name="Inner")))

    (problem,) = read_problems(reader, writer)

    assert problem == "reader field y has no default and the writer does not write it, at /a/y/"


def test_schemas_defined_elsewhere_are_looked_up():
    names = {"x.E": {**ENUM, "namespace": "x"}}
    schema = SchemaVersion(json.dumps(record(field("e", "x.E"))), names)

    assert check_level(schema, [schema], Level.BACKWARD) == []


def test_each_version_is_read_with_its_own_definitions():  # number 12 of the worker's safety
    text = json.dumps(record(field("e", "E")))
    had = SchemaVersion(text, {"E": {"type": "enum", "name": "E", "symbols": ["A", "B", "C"]}})
    has = SchemaVersion(text, {"E": {"type": "enum", "name": "E", "symbols": ["A"]}})

    (problem,) = check_level(has, [had], Level.BACKWARD)

    assert "lacks symbols B, C" in problem


def test_an_earlier_version_that_cannot_be_read_is_a_problem_and_no_fault():  # number 12
    new = SchemaVersion(json.dumps(record()))

    for old in ("no json", json.dumps(record(field("e", "Nowhere"))), "[" * 5000, json.dumps({"type": 7})):
        assert check_level(new, [SchemaVersion(old)], Level.FULL)


@pytest.mark.parametrize("same", [True, False])
def test_types_that_hold_the_next_one_twice_are_compared_in_linear_time(same):  # number 12
    def version(last):
        names = {"T60": record(field("x", last), name="T60")}
        names |= {f"T{n}": record(field("a", f"T{n + 1}"), field("b", f"T{n + 1}"), name=f"T{n}") for n in range(60)}
        return SchemaVersion('"T0"', names)

    problems = check_level(version("int"), [version("int" if same else "string")], Level.BACKWARD)

    assert bool(problems) is not same
    assert len(problems) < 100


def test_what_was_taken_as_readable_inside_an_open_pair_is_not_kept_when_the_pair_fails():  # number 12
    # The union's first branch holds itself and fails; what held only under the assumption that it does not must be asked again.
    def node(kind):
        return record(field("next", ["null", "N"]), field("v", kind), name="N")

    reader = record(field("n", node("int")), field("again", ["null", "N"]))
    writer = record(field("n", node("string")), field("again", ["null", "N"]))

    assert not readable(reader, writer)


def union_of_records(namespace, *, count=1500, prefix="T", name=None):
    records = [
        {"type": "record", "name": name or f"{prefix}{n}", "namespace": f"{namespace}.n{n}", "fields": [field("x", namespace)]}
        for n in range(count)
    ]
    return SchemaVersion(json.dumps(records))


@pytest.mark.parametrize(
    ("reader", "writer"),
    [
        pytest.param({"prefix": "T"}, {"prefix": "S"}, id="other names"),
        pytest.param({"name": "T"}, {"name": "T"}, id="one name, other fields"),
    ],
)
def test_two_large_unions_are_refused_in_bounded_time_and_memory(reader, writer):
    reader, writer = union_of_records("int", **reader), union_of_records("string", **writer)
    before_kib, began_s = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()

    problems = check_level(reader, [writer] * 5, Level.FULL_TRANSITIVE)

    took_s = time.process_time() - began_s
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib
    assert "too large to compare" in problems[-1]
    assert (took_s < 20, grown_kib < 200 << 10) == (True, True), (took_s, grown_kib)


def test_unions_of_a_few_hundred_types_and_two_hundred_versions_of_a_wide_table_are_compared():
    union = union_of_records("int", count=400)
    columns = [field(f"column_{n}", ["null", "string"], default=None) for n in range(300)]
    row = field("before", ["null", record(*columns, name="Value")], default=None)
    table = SchemaVersion(json.dumps(record(row, field("after", ["null", "Value"], default=None))))

    assert check_level(union, [union], Level.FULL) == []
    assert check_level(table, [table] * 200, Level.BACKWARD_TRANSITIVE) == []


def test_an_enum_of_many_symbols_is_compared_in_linear_time():
    one, other = ({**ENUM, "symbols": [f"{letter}{n}" for n in range(50_000)]} for letter in "AB")
    began_s = time.process_time()

    (problem,) = read_problems(one, other)

    assert time.process_time() - began_s < 2
    assert "lacks symbols B0, B1" in problem
    assert len(problem) < 1000


def test_problems_do_not_repeat_a_long_name_without_end():
    fields = [field(f"f{n}", "int") for n in range(5000)]
    reader = record(field("n" * 500_000, record(*fields, name="Inner")))
    writer = record(field("n" * 500_000, record(name="Inner")))

    problems = check_level(SchemaVersion(json.dumps(reader)), [SchemaVersion(json.dumps(writer))], Level.BACKWARD)

    assert sum(map(len, problems)) < 100 << 20
    assert problems[-1].endswith("NONE")
