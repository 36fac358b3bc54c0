"""Filter and ContentBasedRouter: the usual expressions of Groovy and JavaScript, and what is refused by name."""

import pytest
from dblog.errors import ConfigError
from dblog.transforms.expressions import Expression, ExpressionError
from dblog.transforms.faults import RecordError
from dblog.transforms.record import Header
from worker.transforms.records import DEBEZIUM, TEXT, change, row, tombstone, transform

UPDATE = change("u", before=row(id=2), after=row(id=2, name="b")).with_headers((Header("idh", TEXT, "1"),))


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("value.op == 'u' && value.before.id == 2", True),
        ("value.op != 'd' || value.before.id != 2", True),
        ("value.get('op') == 'u' && value.get('before').get('id') == 2", True),
        ("value.after.name == 'cancelled'", False),
        ("topic == 'p.d.t'", True),
        ("topic.startsWith('p.') && !topic.endsWith('x')", True),
        ("topic.matches('p[.].*')", True),
        ("topic ==~ 'p.d'", False),
        ("header.idh.value == '1'", True),
        ("header.none?.value == null", True),
        ("valueSchema.name() == 'p.d.t.Envelope'", True),
        ('valueSchema?.name == "p.d.t.Envelope"', True),
        ("value.source.table in ['t', 'u']", True),
        ("['c', 'u'].contains(value.op)", True),
        ("value.before.id >= 2 && value.before.id < 2.5", True),
        ("value.before.id === 2;", True),
        ("value.op == 'd' ? 'deletes' : null", None),
        ("value == null ? 'nulls' : (value.before.id == 2 ? 'twos' : null)", "twos"),
        ("'t-' + value.before.id", "t-2"),
        ("value.before.id + 1", 3),
        ("value['op']", "u"),
        ("value.after.kind ?: 'x'", "none"),
        ("key.id == 2 && true", True),
        ("!(value.op == 'u')", False),
        ("value.after.name.toUpperCase()", "B"),
        ("value.before?.nope", RecordError),
        ("value.transaction.id == 'x'", RecordError),
        ("value.after.name > 3", RecordError),
    ],
)
def test_an_expression_is_read_as_groovy_reads_it(text, result):
    expression = Expression(text)

    if result is RecordError:
        with pytest.raises(RecordError):
            expression.evaluate(UPDATE)
    else:
        assert expression.evaluate(UPDATE) == result


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("value.after.email = sha256(value.after.email)", "= is not known here"),
        ("(new groovy.json.JsonSlurper()).parseText(value.after).x == 1", "new is not known here"),
        ("operation != 'd'", "operation is not known here; an expression can use key, value"),
        ("operation != 'd", "' is not known here"),
        ("value.op.execute()", r"execute\(\) with 0 arguments is not known here"),
        ("value.op == 'u' &&", "the expression is not complete"),
        ("value.op 'u'", "'u' is not expected there"),
        ('"${value.op}" == "u"', r"a text with \$\{...\} in it is not known here"),
        ("topic.matches(value.op)", "a pattern has to be written out"),
        ("topic ==~ '('", "an opening parenthesis has no closing one"),
        ("(" * 60 + "true" + ")" * 60, "nested at most"),
        ("System.exit(1)", "System is not known here"),
        ("value.op == 'u'; value.op == 'c'", "; is not known here"),
        ("{ it -> true }", "{ is not known here"),
    ],
)
def test_what_is_not_known_is_refused_by_name(text, reason):
    with pytest.raises(ExpressionError, match=reason):
        Expression(text)


def test_a_filter_keeps_what_is_true():
    keep = transform(f"{DEBEZIUM}.Filter", language="jsr223.groovy", condition="value.op == 'u'")

    assert keep(UPDATE) is UPDATE
    assert keep(change("c", after=row())) is None
    with pytest.raises(RecordError, match="is not a Boolean"):
        transform(f"{DEBEZIUM}.Filter", language="jsr223.groovy", condition="value.op")(UPDATE)


@pytest.mark.parametrize(("mode", "kept"), [("keep", True), ("drop", False), ("evaluate", False)])
def test_tombstones_are_handled_as_asked_for(mode, kept):
    keep = transform(f"{DEBEZIUM}.Filter", language="jsr223.groovy", condition="value != null", null__handling__mode=mode)

    assert (keep(tombstone()) is not None) is kept


def test_a_router_leaves_the_topic_where_the_expression_is_null():
    route = transform(f"{DEBEZIUM}.ContentBasedRouter", language="jsr223.graal.js", topic__expression="value.op == 'u' ? 'updates' : null")

    assert route(UPDATE).topic == "updates"
    assert route(change("c", after=row())).topic == "p.d.t"
    other = transform(f"{DEBEZIUM}.ContentBasedRouter", language="jsr223.js", topic__expression="'x'", topic__regex="other.*")
    assert other(UPDATE).topic == "p.d.t"


@pytest.mark.parametrize(
    ("options", "key", "text"),
    [
        ({"language": "jsr223.jython", "condition": "true"}, "language", "jsr223.jython is not known here"),
        ({"language": "wasm.chicory", "condition": "true"}, "language", "wasm.chicory is not known here"),
        ({"language": "jsr223.groovy", "condition": "x = 1"}, "condition", "it cannot be evaluated here"),
        ({"language": "jsr223.groovy"}, "condition", "Missing required configuration"),
    ],
)
def test_another_language_and_a_script_are_errors_of_their_keys(options, key, text):
    with pytest.raises(ConfigError, match=rf"transforms\.x\.{key}.*{text}"):
        transform(f"{DEBEZIUM}.Filter", **options)


@pytest.mark.parametrize("text", ["1 == " + "9" * 5000, "!" * 5000 + "true", "-" * 5000 + "1 == 1", "(" * 5000])
def test_an_expression_that_is_no_expression_is_refused_in_words(text):
    with pytest.raises(ExpressionError, match="at most"):
        Expression(text)


def test_an_expression_without_a_result_is_a_fault_of_the_record():
    for text in ("+".join(["1"] * 4000), "header.contains([1])"):
        with pytest.raises(RecordError, match="has no result"):
            Expression(text).evaluate(UPDATE)
