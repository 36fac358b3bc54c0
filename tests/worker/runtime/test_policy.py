"""What the status topic shows of an error."""

from __future__ import annotations

from dblog.errors import BadRowsError, DefiniteError
from dblog.runtime.policy import failed_trace, trace_of


def raised(message: str, cause: Exception) -> DefiniteError:
    try:
        raise BadRowsError(message) from cause
    except DefiniteError as error:
        return error


def test_a_cause_that_the_sentence_has_already_is_named_without_its_text() -> None:
    cause = DefiniteError("shop.t: the log lacks columns")

    assert trace_of(raised(f"{cause} (event at binlog.1:4)", cause)).splitlines() == [
        "BadRowsError: shop.t: the log lacks columns (event at binlog.1:4)",
        "Caused by: DefiniteError",
    ]
    assert trace_of(raised("nothing can be read", cause)).splitlines()[1] == "Caused by: DefiniteError: shop.t: the log lacks columns"


def test_the_class_of_a_librarys_error_is_not_shown_and_what_is_behind_it_is() -> None:
    library = ValueError("row-canary")
    library.__cause__ = DefiniteError("the log ends")

    assert trace_of(raised("nothing can be read", library)).splitlines() == [
        "BadRowsError: nothing can be read",
        "Caused by: DefiniteError: the log ends",
    ]


def test_the_trace_of_a_failed_task_ends_with_the_request_that_restarts_it() -> None:
    for error, first in ((DefiniteError("no log"), "DefiniteError: no log"), (KeyError("x"), "Unexpected KeyError: this is a bug")):
        lines = failed_trace(error, "shop/orders 1").splitlines()

        assert lines[0].startswith(first)
        assert lines[-1].endswith("POST /connectors/shop%2Forders%201/restart?includeTasks=true&onlyFailed=true")
        assert not any("POST" in line for line in lines[:-1])
