"""The rules of response.http.headers.config, as Kafka's documentation writes them."""

import pytest
from dblog.config.response_headers import ResponseHeaders, check_response_headers

NOON_S = 1_780_000_000  # Thu, 28 May 2026 20:26:40 GMT

OF_KAFKAS_PAGE = (
    '"add Cache-Control: no-cache, no-store, must-revalidate", add X-XSS-Protection: 1; mode=block, '
    "add Strict-Transport-Security: max-age=31536000; includeSubDomains, add X-Content-Type-Options: nosniff"
)


def test_the_example_of_kafkas_documentation_is_four_headers():
    assert ResponseHeaders.of(OF_KAFKAS_PAGE).at(NOON_S) == [
        (b"cache-control", b"no-cache, no-store, must-revalidate"),
        (b"x-xss-protection", b"1; mode=block"),
        (b"strict-transport-security", b"max-age=31536000; includeSubDomains"),
        (b"x-content-type-options", b"nosniff"),
    ]


def test_set_replaces_what_was_said_before_and_add_stands_beside_it():
    rules = "add X-A: 1, add x-a: 2, set X-a: 3, add X-A: 4, add X-B: 5"

    assert ResponseHeaders.of(rules).at(NOON_S) == [(b"x-a", b"3"), (b"x-a", b"4"), (b"x-b", b"5")]


def test_a_date_is_counted_from_now():
    rules = ResponseHeaders.of("setDate Expires: 3600000, addDate Last-Modified: -1000")

    assert rules.at(NOON_S) == [
        (b"expires", b"Thu, 28 May 2026 21:26:40 GMT"),
        (b"last-modified", b"Thu, 28 May 2026 20:26:39 GMT"),
    ]
    assert rules.at(NOON_S + 60)[0] == (b"expires", b"Thu, 28 May 2026 21:27:40 GMT")


def test_quotes_a_colon_in_the_value_and_letters_of_either_case_are_taken():
    rules = ' SET\tLink:  https://page.example:8443/a ,,  "add X-Quote: say \\"a, b\\"" , '

    assert ResponseHeaders.of(rules).at(NOON_S) == [(b"link", b"https://page.example:8443/a"), (b"x-quote", b'say "a, b"')]


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ("add X-A: 1, X-B: 2", "'X-B: 2' is not a rule; write one of set, add, setDate, addDate, then name: value"),
        ("put X-A: 1", "is not a rule"),
        ("set X-A", "is not a rule"),
        ("set X-A:", "is not a rule"),
        ('"set X-A: 1', "is not a rule"),
        ("add Cache-Control: no-cache, no-store", "'no-store' is not a rule"),
        ("set X A: 1", "no blanks in the name"),
        ("set X-A: 1\r\nx-b: 2", "characters that a header cannot have"),
        ("set X-A: é", "write ASCII"),
        ("setDate Expires: tomorrow", "needs a number of milliseconds from now"),
        ("setDate Expires: 99999999999999", "at most 13 digits"),
        ("set Content-Length: 3", "Content-Length is the server's own header; remove the rule"),
        ("addDate Date: 0", "the server's own"),
    ],
)
def test_a_rule_that_cannot_be_obeyed_is_refused_with_the_reason(rules, reason):
    assert reason in (check_response_headers(rules, {}) or "")


def test_the_farthest_date_that_is_taken_can_be_written():
    assert len(ResponseHeaders.of("setDate Expires: 9999999999999, addDate Expires: -9999999999999").at(NOON_S)) == 2
