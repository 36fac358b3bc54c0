"""Intervals in both handling modes, against the arithmetic of the server's parts."""

import pytest
from dblog.dialects.postgres.values.fields import reader
from dblog.dialects.postgres.values.intervals import Parts, parts
from dblog.dialects.postgres.values.types import TypeModes, column_plan
from dblog.errors import BadRowsError
from dblog.model import Column, TableId
from hypothesis import given
from hypothesis import strategies as st


def read(text, mode="numeric", *, nullable=True):
    modes = TypeModes(interval_handling_mode=mode)
    column = Column(name="c", type="interval", type_text="interval", nullable=nullable)
    return reader(column_plan(column, modes, TableId("public", "t")), modes)(text.encode())


def printed(months: int, days: int, micros: int) -> str:
    """As interval_out does it under IntervalStyle=postgres: a plus where a part that is negative stands in front."""
    years, months = abs(months) // 12 * (1 if months >= 0 else -1), abs(months) % 12 * (1 if months >= 0 else -1)
    out, before = [], False
    for number, unit in ((years, "year"), (months, "mon"), (days, "day")):
        if number:
            out.append(f"{'+' if before and number > 0 else ''}{number} {unit}{'' if number == 1 else 's'}")
            before = number < 0
    if micros or not out:
        seconds, fraction = divmod(abs(micros), 1_000_000)
        clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}" + (f".{fraction:06d}".rstrip("0") if fraction else "")
        out.append(("-" if micros < 0 else "+" if before else "") + clock)
    return " ".join(out)


some_parts = (st.integers(-(10**4), 10**4), st.integers(-(10**5), 10**5), st.integers(-(10**14), 10**14))


@given(*some_parts)
def test_every_part_is_read_with_its_sign(months, days, micros):
    found = parts(printed(months, days, micros).encode())

    assert found.years * 12 + found.months == months
    assert found.days == days
    assert (found.hours * 60 + found.minutes) * 60_000_000 + found.micros == micros


@given(*some_parts)
def test_as_a_number_a_month_is_30_days_and_10_and_a_half_hours(months, days, micros):
    exact = (months * 487 + days * 16) * 5_400_000_000 + micros

    assert abs(read(printed(months, days, micros)) - exact) <= 1 + abs(exact) // 10**14


def test_doubles_are_cut_and_not_rounded_as_in_java():
    assert read("00:00:00.000001") == 1
    assert read("-00:00:00.000001") == -1
    assert read("1 year 2 mons 3 days 04:05:06.78") == 37_091_106_780_000
    assert read("178000000 years") == 2**63 - 1
    assert read("-178000000 years") == -(2**63)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("00:00:00", "P0Y0M0DT0H0M0S"),
        ("1 year 2 mons 3 days 04:05:06.78", "P1Y2M3DT4H5M6.78S"),
        ("-1 years -2 mons +3 days -04:05:06.789", "P-1Y-2M3DT-4H-5M-6.789S"),
        ("-00:00:00.5", "P0Y0M0DT0H0M-0.5S"),
        ("1 mon -1 days", "P0Y1M-1DT0H0M0S"),
        ("2562047788:00:54.775807", "P0Y0M0DT2562047788H0M54.775807S"),
        ("00:00:10", "P0Y0M0DT0H0M10S"),
    ],
)
def test_as_a_text_every_part_is_printed(text, expected):
    assert read(text, "string") == expected


@pytest.mark.parametrize("mode", ["numeric", "string"])
@pytest.mark.parametrize("text", ["infinity", "-infinity"])
def test_an_infinite_interval_is_null_or_an_error_and_no_length(mode, text):
    assert read(text, mode) is None
    with pytest.raises(BadRowsError, match="column c: an infinite interval cannot be written"):
        read(text, mode, nullable=False)


@pytest.mark.parametrize("text", ["", "1", "P1Y", "@ 1 year", "1 year 2", "04:05", "1 day ago"])
def test_another_interval_style_is_refused(text):
    with pytest.raises(BadRowsError, match="IntervalStyle"):
        read(text, nullable=False)


def test_parts_stand_alone():
    assert parts(b"2 years") == Parts(2, 0, 0, 0, 0, 0)
    assert parts(b"-1 days") == Parts(0, 0, -1, 0, 0, 0)
    assert parts(b"-01:00:00") == Parts(0, 0, 0, -1, 0, 0)
