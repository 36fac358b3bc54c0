"""The web page without Kafka and without a browser."""

import pytest
from support.held_page import HeldPage


@pytest.fixture
def page(monkeypatch):
    made = HeldPage(monkeypatch)
    yield made
    made.close()
