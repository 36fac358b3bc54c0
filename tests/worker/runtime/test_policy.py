"""What the status topic says of an error."""

from __future__ import annotations

from dblog.errors import BadRowsError, DefiniteError
from dblog.runtime.policy import trace_of


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
