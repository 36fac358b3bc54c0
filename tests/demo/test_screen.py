"""The picture of a run: a view in, lines out, whatever the size of the terminal."""

import itertools

from demo import screen
from demo.screen import Numbers, Rate, View, line, picture
from rich.cells import cell_len


def view(**more: object) -> View:
    numbers = Numbers(
        rows_dumped=318_004,
        rows_to_dump=516_226,
        records=361_230,
        changes=43_112,
        rows_lake=212_000,
        rows_by_table={"countries": 227, "customers": 80_000, "orders": 131_773},
        commits=14,
        lag_s=6.4,
        task="RUNNING",
    )
    made = View(
        "dblog demo: mariadb to Kafka to Delta Lake",
        source="mariadb",
        elapsed_s=47.2,
        phase="the shop is open",
        numbers=numbers,
        changes_per_s=790.0,
        records_per_s=41_000.0,
        rows_per_s=31_000.0,
    )
    for name, value in more.items():
        setattr(made, name, value)
    return made


def shown(one: View, *, width: int = 100, height: int = 40) -> list[str]:
    return [text.plain.rstrip() for text in picture(one, width=width, height=height)]


def test_the_picture_follows_a_row_from_the_source_to_the_lake():
    assert shown(view())[:7] == [
        "dblog demo: mariadb to Kafka to Delta Lake" + " " * 54 + "0:47",
        "─" * 100,
        "source      43,112 changes   (790/s)   mariadb",
        "worker   task RUNNING   █████████████████░░░░░░░░░░░   62% dumped   318,004 rows",
        "topics     361,230 records in Kafka   (41,000/s)",
        "lake       212,000 rows in Delta   (31,000/s)   14 commits   lag 6 s",
        "         countries 227 · customers 80,000 · orders 131,773",
    ]


def test_what_is_not_known_yet_is_a_dash_and_no_number():
    lines = shown(View("demo", source="mysql"))

    assert "source           0 changes   (0/s)   mysql" in lines
    assert "worker   task -   no dump yet" in lines
    assert "lake             - rows in Delta   (0/s)   0 commits   lag -" in lines
    assert "killed   nothing yet" in lines


def test_a_dump_is_full_only_when_it_is_done_however_many_rows_it_has_read():
    one = view()
    one.numbers.rows_dumped = 520_000

    assert any("99% dumped" in text for text in shown(one))

    one.numbers.dump_done = True
    assert any("100% dumped" in text for text in shown(one))


def test_kills_stay_on_the_screen_with_their_moment():
    one = view(kills=[(21.4, "task (dump)"), (65.0, "sink (2 commits)")])

    assert "killed   0:21 task (dump)   1:05 sink (2 commits)" in shown(one)


def test_the_screen_says_what_the_run_waits_for_and_for_how_long():
    one = view(waits_for="the task to run", waits_since_s=43.0)

    assert "waits    for the task to run, 4 s so far" in shown(one)
    assert line(one).endswith(" | waits for the task to run, 4 s so far")
    assert "waits    for nothing" in shown(view())
    assert "waits for" not in line(view())


def test_the_newest_events_are_seen_where_there_is_room():
    one = view(events=[(float(at), f"event {at}") for at in range(100)])
    without = len(shown(view()))

    lines = shown(one, height=without + 6)

    assert [text.strip() for text in lines[-5:]] == [f"1:{at - 60:02}   event {at}" for at in range(95, 100)]
    assert not any("event" in text for text in shown(one, height=without + 2)), "two of them would only flicker"


def test_no_line_is_wider_and_no_picture_higher_than_the_terminal():
    wide = view(
        kills=[(float(at), "worker (log)") for at in range(9)],
        events=[(1.0, "ALTER TABLE 注文 ADD COLUMN " + "x" * 300)],
        waits_for="the last row of " + ", ".join(["a table"] * 30),
    )
    wide.numbers.rows_by_table = {f"table_{at}": 10**at for at in range(12)}
    wide.numbers.dump = screen.bar(0.5) + " 50% RUNNING"

    for width, height in itertools.product((40, 61, 80, 200), (5, 12, 24, 60)):
        lines = picture(wide, width=width, height=height)

        assert len(lines) <= height
        assert all(cell_len(text.plain) <= width for text in lines), (width, height)


def test_a_line_for_a_file_has_every_number():
    assert line(view(kills=[(21.4, "task (dump)")])) == (
        "  47.2 s  | source 43,112 changes (790/s) | worker RUNNING, dumped 318,004 of 516,226 rows | topics 361,230 records (41,000/s)"
        " | lake 212,000 rows (31,000/s), lag 6 s | killed task (dump)"
    )


def test_a_rate_is_that_of_the_last_seconds_and_never_negative():
    rate = Rate()

    assert rate.take(100, 10.0) == 0.0
    assert rate.take(200, 11.0) == 100.0
    assert rate.take(200, 12.0) == 50.0
    for second in range(13, 30):
        latest = rate.take(200, float(second))
    assert latest == 0.0, "what was long ago is no speed"
    assert rate.take(0, 31.0) == 0.0, "a lake that begins again does not shrink at a speed"
