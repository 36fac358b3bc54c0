"""Following a dump to its end, on a terminal and without one."""

import io
import re

from dblog.dumps.watch import watch
from dblog.errors import TransientError


def dump(state, rows, **more):
    status = {
        "state": state,
        "rows": rows,
        "rows_estimated": 1000,
        "tables_done": 0,
        "tables_total": 1,
        "reason": None,
        "tables": [],
        **more,
    }
    return {"id": "d1", "connector": "shop", "requested_by": "rest", "mode": "rows", "status": status}


def followed(answers, *, live):
    """What is written, and the state at the end; the answers that are errors are raised."""
    left, out, pauses = list(answers), io.StringIO(), []

    def ask():
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    state = watch(ask, out, every_s=0.5, live=live, pause=pauses.append)
    assert pauses == [0.5] * (len(answers) - 1)
    return out.getvalue(), state


def test_without_a_terminal_there_is_a_line_for_each_step_with_its_time():
    text, state = followed([dump("WAITING", 0), dump("RUNNING", 500), dump("RUNNING", 500), dump("DONE", 1000)], live=False)

    lines = text.splitlines()
    assert all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ dump d1 of shop \(rows\): ", line) for line in lines)
    assert [line.partition("): ")[2] for line in lines] == [
        "WAITING; 0 %, 0 of about 1 000 rows, 0 of 1 tables",
        "RUNNING; 50 %, 500 of about 1 000 rows, 0 of 1 tables",
        "DONE; 100 %, 1 000 rows, 0 of 1 tables",
    ]
    assert (state, "\x1b" in text) == ("DONE", False)


def test_on_a_terminal_the_picture_is_drawn_over_the_last_one():
    table = {"table": "shop.orders", "state": "RUNNING", "rows": 5, "rows_estimated": 10}
    text, state = followed([dump("RUNNING", 500, tables=[table]), dump("RUNNING", 700), dump("FAILED", 700, reason="dropped")], live=True)

    first, second, last = text.split("\x1b[J")[1:]
    assert (
        first
        == "dump d1 of shop (rows): RUNNING\n[############............] 50 %, 500 of about 1 000 rows, 0 of 1 tables\n  [######......] shop.orders  RUNNING  5 of about 10 rows\n\x1b[3A\r"
    )
    assert second.endswith("\x1b[2A\r"), "two lines are drawn over"
    assert last.startswith("dump d1 of shop (rows): FAILED, dropped\n")
    assert state == "FAILED"


def test_a_worker_that_is_away_is_asked_again():
    away = TransientError("no worker answers at http://a")

    text, state = followed([away, away, dump("STOPPED", 3)], live=False)

    assert [line.split(" ", 1)[1] for line in text.splitlines()] == [
        "no worker answers at http://a; asking again",
        "dump d1 of shop (rows): STOPPED; 0 %, 3 rows, 0 of 1 tables",
    ]
    assert state == "STOPPED"


def test_why_nobody_answers_does_not_write_to_the_terminal():
    text, _ = followed([TransientError("the proxy says \x1b[31mno\nand no"), dump("DONE", 3)], live=False)

    assert r"the proxy says \u001b[31mno\nand no; asking again" in text
