"""The page of converters lists what the worker declares."""

from docs.converters_page import PAGE, page


def test_the_page_is_what_the_worker_declares() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "write the page again: build/venv/bin/python tests/docs/converters_page.py"
