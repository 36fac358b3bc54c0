"""What of a task's trace is for whom."""

from __future__ import annotations

import pytest
from dblog.config.roles import EVERYTHING, OPERATING, READING, Grants
from dblog.errors import DefiniteError
from dblog.rest.access import shown_trace
from dblog.rest.identity import PRINCIPAL, Principal, Way
from dblog.runtime.policy import failed_trace
from starlette.requests import Request


def shown(grants: Grants, error: BaseException) -> str:
    request = Request({"type": "http", PRINCIPAL: Principal("ann", Way.PASSWORD, grants)})
    return shown_trace(request, "shop", failed_trace(error, "shop"))


def raised() -> BaseException:
    try:
        try:
            int("row-canary")
        except ValueError as e:
            raise KeyError("other-canary\nsecond-canary") from e
    except KeyError as e:
        return e


@pytest.mark.parametrize("grants", [OPERATING, EVERYTHING])
def test_operators_see_what_a_fault_of_the_program_raised(grants: Grants) -> None:
    assert "row-canary" in shown(grants, raised())


def test_others_see_no_text_that_nobody_foresaw() -> None:  # number 29 of the worker's safety
    assert shown(READING, raised()).splitlines() == [
        "Unexpected KeyError: this is a bug in dblog, please report it with this trace.",
        "Once the cause is gone: POST /connectors/shop/restart?includeTasks=true&onlyFailed=true",
    ]


def test_everybody_sees_an_error_with_its_remedy() -> None:
    error = DefiniteError("shop.t: no such column;\n  run this")

    assert shown(READING, error) == shown(EVERYTHING, error)
