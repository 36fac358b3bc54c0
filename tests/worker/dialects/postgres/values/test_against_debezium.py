"""Schemas and values of every type in every mode, with Debezium 3.6.1 as the oracle (tests/support/debezium/record_postgres.py)."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from dblog.codecs import avro
from dblog.codecs.envelope import row_schema
from dblog.codecs.json import JsonForm, writer
from dblog.core.selection import column_rewrite, name_matcher
from dblog.dialects.postgres.values.fields import reader, unavailable
from dblog.dialects.postgres.values.types import TypeModes, column_plan
from dblog.model import TableId
from support.postgres_type_cases import CASES, MODES

RECORDED = json.loads((Path(__file__).parents[4] / "support" / "debezium" / "postgres_types.json").read_text())
TEXTS = RECORDED["texts"]
FORM = JsonForm(schemas_enable=False, replace_null_with_default=False)
every_mode = pytest.mark.parametrize(
    "properties", MODES, ids=lambda p: ",".join(f"{k}={v}" for k, v in p.items()).replace(".handling.mode", "") or "defaults"
)


def modes_of(properties):
    return TypeModes.from_settings(
        properties,
        column_propagate=name_matcher(properties.get("column.propagate.source.type"), option="column.propagate.source.type"),
        datatype_propagate=name_matcher(properties.get("datatype.propagate.source.type"), option="datatype.propagate.source.type"),
        column_rewrite=column_rewrite(properties),
    )


def planned(properties):
    """Each case with its plan, the modes, and what Debezium has made of it."""
    modes = modes_of(properties)
    recorded = RECORDED["{}"] | RECORDED[json.dumps(properties)]
    for number, case in enumerate(CASES):
        yield case, column_plan(case.column, modes, TableId("public", f"t{number}")), modes, recorded[case.ddl]


def field_text(plan, number):
    if plan.schema is None:
        return ""
    schema = row_schema(f"p.public.t{number}", [("c", plan.schema)])
    return avro.avro_text(replace(schema, optional=False)).partition('"fields":[')[2].rpartition('],"connect.name":')[0]


def as_json(plan, value):
    """The value as it stands in the record, behind masks, hashes and cuts."""
    return writer(plan.schema, FORM)(value if plan.rewrite is None else plan.rewrite(value))


def test_every_case_is_recorded():
    assert set(TEXTS) == set(RECORDED["{}"]) == {case.ddl for case in CASES}


@every_mode
def test_every_column_has_the_schema_text_that_debezium_registers(properties):
    differences = {
        case.ddl: (field_text(plan, number), expected["field"])
        for number, (case, plan, _, expected) in enumerate(planned(properties))
        if field_text(plan, number) != expected["field"]
    }

    assert differences == {}


OTHERWISE_ON_PURPOSE = {
    ("c name", "a_name"): "Debezium's snapshot has the text, its stream a null",
    ("c numeric(10,2)[]", "{NaN}"): "what a numeric has in the modes string and double, its array has too; Debezium has a null",
    ("c real", "1e-45"): "the JSON converter's text of the smallest number; the value is the same",
    ("c double precision", "5e-324"): "as above",
}


@every_mode
def test_every_value_is_the_one_that_debezium_writes(properties):
    differences = {}
    for case, plan, modes, expected in planned(properties):
        if plan.schema is None or masked_citext(case, properties):
            continue
        read = reader(plan, modes)
        for text, wanted in zip(TEXTS[case.ddl], expected["values"], strict=True):
            found = as_json(plan, read(text.encode()))
            if found != wanted and (case.ddl, text) not in OTHERWISE_ON_PURPOSE:
                differences[case.ddl, text] = found, wanted

    assert differences == {}


@every_mode
def test_what_stands_for_an_unchanged_toast_value_is_debezium_s_placeholder_where_it_has_one(properties):
    differences = {}
    for case, plan, modes, expected in planned(properties):
        wanted = expected["unchanged"]
        if plan.schema is None or masked_citext(case, properties) or without_placeholder(wanted):
            continue
        value = unavailable(plan, modes)
        # Debezium's cut leaves the placeholder of bytes alone.
        found = writer(plan.schema, FORM)(value) if isinstance(value, bytes) else as_json(plan, value)
        if found != wanted:
            differences[case.ddl] = found, wanted

    assert differences == {}


@every_mode
def test_null_is_null_or_the_zero_that_debezium_has_for_it(properties):
    differences = {}
    for case, plan, _, expected in planned(properties):
        wanted = expected["null"]
        if plan.schema is None or masked_citext(case, properties) or str(wanted).startswith("ERROR"):
            continue
        found = as_json(plan, None if plan.schema.optional else plan.zero)
        # A geometry's schema is optional even where the column takes no NULL; Debezium has an empty collection there, and NULL in all else that is optional.
        if found != wanted and case.ddl != "c geometry NOT NULL":
            differences[case.ddl] = found, wanted

    assert differences == {}


def masked_citext(case, properties):
    """Debezium masks no citext, as its driver does not know that it is text; what was meant to be hidden stays readable."""
    return case.column.type == "citext" and any(key.startswith("column.mask") for key in properties)


def without_placeholder(wanted):
    """A null, an error, or the name of the marker object."""
    return wanted in (None, "null") or wanted.startswith(("ERROR", '"java.lang.Object'))


@every_mode
def test_the_zero_of_every_required_column_is_a_value_of_its_schema(properties):
    for case, plan, _, _ in planned(properties):
        if plan.schema is not None and not plan.schema.optional:
            assert avro.encode(plan.schema, plan.zero) == avro.encode(replace(plan.schema, default=None), plan.zero), case.ddl


@every_mode
def test_every_value_and_every_placeholder_has_an_avro_form(properties):
    for case, plan, modes, _ in planned(properties):
        if plan.schema is None:
            continue
        read = reader(plan, modes)
        values = [read(text.encode()) for text in TEXTS[case.ddl]]
        values += [value] if (value := unavailable(plan, modes)) is not None else []
        for value in values:
            assert avro.encode(plan.schema, value), (case.ddl, value)
