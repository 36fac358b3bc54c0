"""The entries of access.control.allow.origin: one origin, a pattern of Kafka 3, an expression of Kafka 4."""

import pytest
from dblog.config.origins import AllowedOrigins, check_origins

BELOW_CORP = ("https://*.corp.example", r"https://.*\.corp\.example")
"""The same pages, as files for Kafka up to 3.9 and since 4.0 write them."""


@pytest.mark.parametrize("entry", BELOW_CORP)
def test_a_pattern_allows_what_it_matches_as_a_whole(entry):  # number 6 of the worker's safety
    origins = AllowedOrigins.of(f"http://page.example, {entry}")

    assert [
        origins.allows(origin)
        for origin in (
            "https://console.corp.example",
            "https://a.b.corp.example",
            "http://page.example",
            "http://console.corp.example",
            "https://console.corp.example.evil",
            "https://console-corp.example",
            "https://page.example",
            "null",
        )
    ] == [True, True, True, False, False, False, False, False]


def test_the_dots_of_an_origin_are_dots():
    assert not AllowedOrigins.of("http://page.example").allows("http://pagexexample")
    assert not AllowedOrigins.of("http://*.page.example").allows("http://a.pagexexample")


@pytest.mark.parametrize(
    ("entry", "origin"),
    [
        ("http://localhost:*", "http://localhost:3000"),
        ("http://[::1]:8080", "http://[::1]:8080"),
        ("http://[::1]:*", "http://[::1]:3000"),
        ("http://[ab].example", "http://b.example"),
        ("https?://page.example", "http://page.example"),
        ("*", "http://anything.example"),
        ("http://page.example,*", "null"),
    ],
)
def test_an_entry_allows(entry, origin):
    assert AllowedOrigins.of(entry).allows(origin)


def test_an_empty_list_allows_none():
    assert not AllowedOrigins.of(" , ")
    assert AllowedOrigins.of("*")
    assert AllowedOrigins.of("http://*.example")


def test_an_expression_that_is_none_is_refused_with_its_text():
    assert check_origins(r"http://page.example,https://(a\.example", {}) == (
        r"the entry 'https://(a\.example' cannot be used: an opening parenthesis has no closing one; write \( for the sign; "
        "write origins such as https://console.example, or https://*.corp.example for all below a domain"
    )
    assert check_origins(r"https://.*\.corp\.example", {}) is None


def test_an_expression_that_looks_back_is_refused_as_it_could_keep_the_worker_busy():
    assert "the entry" in (check_origins(r"https://(a+)\1", {}) or "")
