"""Patterns in Java's dialect: what they match, what is refused by name, and that no pattern takes long."""

import json
import random
import re
import time

import pytest
from dblog.config.connector import MYSQL_OPTIONS, check_connector
from dblog.config.regex import LIST_CHARS_MAX, PATTERN_CHARS_MAX, Pattern, PatternError, any_of, as_written
from dblog.config.topic_creation import check_topic_creation
from dblog.core.dumprequests import parse_request
from dblog.core.selection import Selection, column_rewrite, key_rules
from dblog.core.signals import Signal, SignalError, action_of
from dblog.errors import ConfigError, DefiniteError
from dblog.model import TableId
from support.worker import connector_config

ATOMS = [
    "a",
    "b",
    ".",
    "\\.",
    "[ab]",
    "[^a]",
    "\\d",
    "\\w",
    "(a|b)",
    "(?:ab|c)",
    "1",
    "_",
    "-",
    "\\Qa.\\E",
    "^",
    "$",
    "\\b",
    "(?i:A)",
    "(?i:a|C)",
]
QUANTIFIERS = ["", "", "", "*", "+", "?", "{2}", "{1,2}", "{0,}", "*?", "??"]
AROUNDS = ["(?!a)", "((?!a).)*", "((?!b.).)+", "(?:(?!1).)*", "(?=a)", "(?!ab.*)", "(?!.*b$)", "(?=a|b)", "(?<!a)", "(?<=b)", "(?!)"]


def generated(chance: random.Random, depth: int = 0) -> str:
    def sequence() -> str:
        parts = []
        for _ in range(chance.randint(1, 4)):
            atom = f"({generated(chance, depth + 1)})" if depth < 2 and chance.random() < 0.2 else chance.choice(ATOMS)
            bare = atom in ("^", "$", "\\b") or atom.startswith("\\Q")
            parts.append(atom + ("" if bare else chance.choice(QUANTIFIERS)))
            if not depth and chance.random() < 0.1:
                parts.append(chance.choice(AROUNDS))
        around = "".join(parts)
        return f"({around})" if not depth and chance.random() < 0.1 else around

    return "|".join(sequence() for _ in range(chance.choice([1, 1, 2])))


@pytest.mark.parametrize(("seed", "count"), [(0, 250), pytest.param(1, 700, marks=pytest.mark.long)], ids=["some", "many"])
def test_generated_patterns_match_what_pythons_own_matcher_does(seed, count):
    chance = random.Random(seed)
    texts = ["", *("".join(chance.choice("ab.c1_-A") for _ in range(chance.randint(1, 6))) for _ in range(40))]
    compared = around = 0
    for number in range(count):
        text, flags = generated(chance), re.IGNORECASE if number % 2 else 0
        known = re.compile(re.sub(r"\\Q(.*?)\\E", lambda found: re.escape(found[1]), text), flags | re.ASCII)
        try:
            pattern = Pattern(text, ignore_case=bool(flags))
        except PatternError as e:
            assert any(reason in str(e) for reason in ("no fixed length", "end of a pattern only"))  # noqa: PT017  most raise none
            continue
        compared += 1
        around += any(each in text for each in AROUNDS)
        wanted = [known.fullmatch(name) is not None for name in texts]
        assert [pattern.fullmatch(name) for name in texts] == wanted, text
        assert [any_of([text], ignore_case=bool(flags))(name) for name in texts] == wanted, text
    assert (compared > 0.7 * count, around > count / 40) == (True, True)


@pytest.mark.parametrize(
    ("text", "matches", "does_not"),
    [
        (r"\Qshop.a+\E.*", "shop.a+b", "shop.aab"),
        (r"\Qshop.a", "shop.a", "shopxa"),
        (r"(?<db>shop|store)\.orders", "store.orders", "store.order"),
        (r"shop\.(?!tmp_|old_).*", "shop.tmp", "shop.old_orders"),
        (r"shop\.(?!.*_tmp$).*", "shop._tmp_1", "shop.a_tmp"),
        (r"shop\..*(?<!_tmp)", "shop.tmp", "shop.a_tmp"),
        (r"(?!mysql|sys).*|mysql\.user", "mysql.user", "mysql.db"),
        (r"[a-c]{3}\d(?=x).*", "abc1xy", "abc1y"),
        (r"\p{Alpha}+\p{Digit}", "ab1", "a_1"),
        (r"[\p{Lower}_]+", "a_b", "aB1"),
        (r"\P{Digit}+", "ab", "a1"),
        (r"\p{IsLatin}+", "aäß", "aя"),
        (r"[^\p{L}]", "1", "я"),
        (r"\u0061\x62\x{63}\0144\cA\e", "abcd\x01\x1b", "abcd"),
        (r"a\sb\hc\Sd", "a\x0bb\xa0c.d", "a.b c d"),
        (r"[\s,]+", "\x0b,", "a"),
        (r"a\_b\-c\$d", "a_b-c$d", "a_b_c$d"),
        (r"[]a-]+", "]-a", "b"),
        (r"(?i)ab(?s:.)", "AB\n", "AB"),
        (r"(?iu)ä", "Ä", "a"),
        (r"(?:)", "", "a"),
        (r"^((?!tmp).)*$", "shop.orders", "shop.a_tmp_b"),
        (r"inventory\.(?:(?!tmp|old).)+", "inventory.a", "inventory.a_old"),
        (r"(shop\.(?!tmp_).*|store\..*)", "store.tmp_", "shop.tmp_a"),
        (r"(?i)orders\.(?!TMP).*", "ORDERS.a", "orders.tmp"),
        (r"(?-i)shop\.A|shop\.B", "shop.B", "shop.b"),
        (r"(?is)a.B|C.D", "c\nd", "c"),
        (r"(?i)a(?=B).*", "ab", "ac"),
        (r"a{02}b{1,03}", "aabb", "a{02}b"),
    ],
)
def test_javas_spellings_mean_the_same(text, matches, does_not):
    assert [Pattern(text).fullmatch(name) for name in (matches, does_not)] == [True, False]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (r"a++", "possessive quantifier ++"),
        (r"(a|b)*+c", "possessive quantifier *+"),
        (r"a{2}+", "possessive quantifier {2}+"),
        (r"(?>a|ab)c", "atomic group"),
        (r"(a)\1", r"back reference \1"),
        (r"(?<x>a)\k<x>", r"back reference \k"),
        (r".*(?!a)b", "no fixed length"),
        (r"(?<=a)b+", "no fixed length"),
        (r"(x(?=a))*b", "looking around inside a group"),
        (r"((?!a).)*b", "at the end of a pattern only"),
        (r"((?!a*).)*", "of nothing"),
        (r"a*((?!b).)*", "no fixed length"),
        (r"(?i:a(?=b).*)", "looking around inside a group"),
        (r"[a-z&&[^b]]", "&& in a class"),
        (r"[a[b]]", "class inside a class"),
        (r"(?x)a b", "flag x"),
        (r"(?U)\w", "flag U"),
        (r"a\Z", r"\Z"),
        (r"a\G", r"\G"),
        (r"\p{InGreek}", r"\p{InGreek}"),
        (r"\p{javaLowerCase}", "javaLowerCase"),
        (r"a{1001}", "repeats more than 1000 times"),
        (r"((a{100}){100}){100}", "repetition size"),
        ("(" * 101 + ")" * 101, "nested more than 100 times"),
        ("a" * (PATTERN_CHARS_MAX + 1), f"more than {PATTERN_CHARS_MAX} characters"),
        (r"\Qab\E*", "cannot be repeated here"),
        ("(a", "no closing one"),
        ("a)", "no opening one"),
        ("*a", "nothing to repeat"),
        ("[a", "not closed"),
        ("a\\", "ends with a backslash"),
        ("a{", "begins no repetition"),
        ("(?", "begins no group"),
        ("(?<a", "not closed"),
        (r"\u00", "too few digits"),
        (r"\x{110000}", "is not a character"),
        ("[b-a]", "b-a"),
        ("\ud800", "surrogate"),
    ],
)
def test_what_is_not_matched_here_is_refused_by_its_name(text, named):  # number 9 of the worker's safety
    for make in (lambda: Pattern(text), lambda: any_of(["fine", text], ignore_case=True)):
        with pytest.raises(PatternError) as caught:
            make()
        assert named in str(caught.value)


def test_what_is_named_is_the_member_at_fault():
    with pytest.raises(ConfigError) as caught:
        Selection.from_settings({"table.include.list": r"shop\.a,shop\.(b,shop\.c"})

    assert r"'shop\.(b' is not" in caught.value.errors["table.include.list"][0]


def test_a_pattern_is_shown_as_it_was_written_on_one_line_and_cut():
    assert as_written(r"a\.b'\d") == r"'a\.b'\d'"
    assert as_written("a\n\ud800\u2028") == r"'a\n\ud800\u2028'"
    assert as_written("a" * 101) == f"'{'a' * 100}...'"


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        (r"c++", "write + without the + after it"),
        (r"a{2}+", "write {2}"),
        (r"(?>a|ab)c", "write (?:...)"),
        (r"(a)\1", "write out the repeated text"),
        (r".*(?!a)b", r"as in shop\.(?!tmp_).*"),
        (r"(?<=a)b+", r"as in shop\..*(?<!_tmp)"),
        (r"(x(?=a))*b", "look around outside of it"),
        (r"(?x)a b", "only i, m, s and u can"),
        (r"a\Z", r"write \z, or nothing"),
        (r"a{1,1001}", "write {1,}"),
        (r"a{1001}", "write at most {1000}"),
        ("*", r"write .* for any characters, or \* for the sign"),
        ("(a", r"write \( for the sign"),
        ("a)", r"write \) for the sign"),
        ("[a", r"write \[ for the sign"),
        ("a\\", r"write \\ for the sign"),
        ("a{1", r"{2\,5}; write \{ for the sign"),
        (r"\p{InGreek}", r"\p{IsGreek}"),
    ],
)
def test_a_refusal_states_what_to_write_instead(text, remedy):
    with pytest.raises(PatternError) as caught:
        Pattern(text)

    assert remedy in str(caught.value)


def test_a_repetition_in_a_list_is_written_with_an_escaped_comma_as_the_refusal_says():
    for key in ("table.include.list", "column.mask.with.3.chars"):
        config = connector_config(name="a")
        (message,) = check_connector(MYSQL_OPTIONS, config | {key: r"shop\.x{2,5}"}).errors[key]
        assert r"'shop\.x{2' is not" in message
        assert r"in a list, whose commas separate, {2\,5}" in message
        assert check_connector(MYSQL_OPTIONS, config | {key: r"shop\.x{2\,5}"}).errors == {}


BOMBS = [r"(a|aa)+!", r"(a+)+!", r"(a*)*b", r"(.*a){20}!", r"(a|a?)+!", r"(?!(a|aa)+!)(a|aa)+!", r"(\w+\w?)+!", r"a?" * 60 + "a" * 60 + "!"]


@pytest.mark.parametrize("bomb", BOMBS)
def test_no_pattern_takes_longer_than_its_text(bomb):  # number 9
    name = "a" * 60
    began_s = time.monotonic()

    tables = Selection.from_settings({"table.include.list": rf"rs2\.{bomb}"})
    assert not tables.includes(TableId("rs2", name))
    columns = Selection.from_settings({"column.exclude.list": rf"rs2\.{bomb}"})
    assert columns.includes_column(f"rs2.{name}")

    assert time.monotonic() - began_s < 2


LARGE = [rf"(?!\pL{{50}}{number})\pL{{50}}{number}" for number in range(2000)]
"""Each takes a megabyte and a tenth of a second, in 27 characters."""

TOGETHER = {
    "a list": (lambda: Selection.from_settings({"column.exclude.list": ",".join(LARGE)}), ConfigError),
    "many options": (lambda: column_rewrite({f"column.truncate.to.{n}.chars": text for n, text in enumerate(LARGE, 1)}), ConfigError),
    "key columns": (lambda: key_rules(";".join(f"{text}:c" for text in LARGE)), ConfigError),
    "a request": (
        lambda: parse_request({"tables": LARGE[:1000]}, id="1", connector="c", created_ms=1, requested_by="rest"),
        DefiniteError,
    ),
    "a signal": (lambda: action_of(Signal("1", "stop-snapshot", json.dumps({"data-collections": LARGE[:250]}), "here")), SignalError),
}


@pytest.mark.some_cases
@pytest.mark.parametrize("given", TOGETHER)
def test_patterns_take_no_more_memory_and_time_together_than_names_do(given):  # number 9
    make, refused = TOGETHER[given]
    began_s = time.process_time()

    with pytest.raises(refused, match="instructions together|not a regular expression that can be used"):
        make()

    assert time.process_time() - began_s < 15, "two minutes without the bound"


def test_the_check_of_a_configuration_bounds_patterns_of_many_options_together():
    cuts = {f"column.truncate.to.{n}.chars": text for n, text in enumerate(LARGE[:300], 1)}
    groups = {f"topic.creation.g{n}.include": text for n, text in enumerate(LARGE[:300])}
    began_s = time.process_time()

    wrong = check_topic_creation({"topic.creation.groups": ",".join(f"g{n}" for n in range(300)), **groups})
    checked = check_connector(MYSQL_OPTIONS, {**connector_config(), **cuts})

    for errors in (wrong, checked.errors):
        assert sum("instructions together" in text for texts in errors.values() for text in texts) > 200
    assert time.process_time() - began_s < 20


def test_a_list_of_15_000_names_is_made_and_asked_at_once():
    members = [rf"inventory\.table_{number}" for number in range(15_000)]
    began_s = time.process_time()

    matches = any_of(members, ignore_case=True)
    found = [matches(f"inventory.TABLE_{number}") for number in range(14_000, 16_000)]

    assert found == [True] * 1000 + [False] * 1000
    assert time.process_time() - began_s < 10, "whatever else the machine does"


def test_names_without_signs_mean_the_same_in_a_list_and_alone_and_cost_little():
    names = [f"db.t{number}" for number in range(5000)]
    for name in ("a", "db.t1", "_.9", "a.b.c"):
        alone, listed = Pattern(name, ignore_case=True), any_of([name, "other"], ignore_case=True)
        for text in (name, name.upper(), name.replace(".", "x"), f"{name}x", "other", ""):
            assert listed(text) is (alone.fullmatch(text) or text == "other"), (name, text)

    took_s = []
    for texts in (names, [name.replace(".", "[.]") for name in names]):
        began_s = time.perf_counter()
        assert any_of(texts, ignore_case=True)("DB.T4999")
        took_s.append(time.perf_counter() - began_s)
    assert took_s[0] < took_s[1] / 4


def test_a_list_beyond_what_a_record_takes_is_refused():
    with pytest.raises(PatternError, match=f"more than {LIST_CHARS_MAX} characters"):
        any_of(("a" * 1000 for _ in range(1001)), ignore_case=True)


def test_a_name_with_bytes_that_are_no_utf8_is_matched_as_if_they_were_replacement_characters():
    name = b"public.caf\xe9".decode("utf-8", "surrogateescape")

    for pattern, matches in ((r"public\..*", True), (r"public\.caf.", True), ("public.cafe", False), (r"(?!public).*", False)):
        assert any_of([pattern], ignore_case=True)(name) is matches, pattern
