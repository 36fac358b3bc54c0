"""Dates, times and timestamps against Python's calendar, and beyond it."""

from datetime import UTC, date, datetime, time, timedelta, timezone

import pytest
from dblog.codecs.plan import Form
from dblog.dialects.postgres.values import moments
from dblog.dialects.postgres.values.fields import reader
from dblog.dialects.postgres.values.sources import PgSource
from dblog.dialects.postgres.values.types import TypeModes, column_plan
from dblog.errors import BadRowsError
from dblog.model import Column, TableId
from hypothesis import given
from hypothesis import strategies as st

TABLE = TableId("public", "t")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def plan_of(name, mode="adaptive", *, length=None, nullable=True, failures="warn"):
    column = Column(name="c", type=name, type_text=name, nullable=nullable, length=length)
    modes = TypeModes(time_precision_mode=mode, event_converting_failure_handling_mode=failures)
    return column_plan(column, modes, TABLE), modes


def read(name, text, mode="adaptive", **more):
    return reader(*plan_of(name, mode, **more))(text.encode())


def server_text(moment: datetime | time) -> str:
    """As the server prints it: fraction digits without trailing zeros."""
    text = moment.isoformat(*[" "] * isinstance(moment, datetime), timespec="microseconds")
    return text.rstrip("0").rstrip(".")


wall_clocks = st.datetimes()


@given(st.dates())
def test_a_date_is_the_days_since_1970(day):
    assert read("date", day.isoformat()) == (day - date(1970, 1, 1)).days
    assert read("date", day.isoformat(), "connect") == (day - date(1970, 1, 1)).days
    assert read("date", day.isoformat(), "isostring") == f"{day.isoformat()}Z"


@given(wall_clocks)
def test_a_timestamp_is_counted_from_1970_and_cut_towards_the_past(moment):
    micros = (moment.replace(tzinfo=UTC) - EPOCH) // MICROSECOND

    assert read("timestamp", server_text(moment)) == micros
    assert read("timestamp", server_text(moment), "microseconds") == micros
    assert read("timestamp", server_text(moment), "connect") == micros // 1000
    assert read("timestamp", server_text(moment), length=3) == micros // 1000


@given(st.datetimes(datetime(1677, 9, 22), datetime(2262, 4, 11, 23, 47, 16, 854775)))  # noqa: DTZ001 - a wall clock
def test_nanoseconds_are_a_thousand_times_the_microseconds(moment):
    assert read("timestamp", server_text(moment), "nanoseconds") == (moment.replace(tzinfo=UTC) - EPOCH) // MICROSECOND * 1000


@given(wall_clocks)
def test_an_iso_timestamp_has_the_fraction_digits_that_it_needs(moment):
    text = f"{server_text(moment).replace(' ', 'T')}Z"

    assert read("timestamp", server_text(moment), "isostring") == text


@given(wall_clocks, st.integers(0, 6))
def test_a_timestamptz_has_exactly_the_digits_of_its_type(moment, digits):
    moment = moment.replace(microsecond=moment.microsecond // 10 ** (6 - digits) * 10 ** (6 - digits))
    text = moment.isoformat(timespec="microseconds")
    text = text[: 20 + digits] if digits else text[:19]

    assert read("timestamptz", f"{server_text(moment)}+00", length=digits) == f"{text}Z"


@given(wall_clocks.filter(lambda moment: 2 <= moment.year <= 9998), st.integers(-15 * 3600 - 3599, 15 * 3600 + 3599))
def test_an_offset_is_taken_off_whatever_the_session_s_time_zone_is(moment, offset_s):
    zone = timezone(timedelta(seconds=offset_s))
    aware = moment.replace(tzinfo=zone)

    text = server_text(moment) + offset_text(offset_s)

    assert read("timestamptz", text) == aware.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def offset_text(offset_s):
    """``+02``, ``-03:30``, ``+00:19:32``, as the server prints offsets."""
    minutes, seconds = divmod(abs(offset_s), 60)
    hours, minutes = divmod(minutes, 60)
    text = f"{'-' if offset_s < 0 else '+'}{hours:02d}"
    return f"{text}:{minutes:02d}:{seconds:02d}" if seconds else f"{text}:{minutes:02d}" if minutes else text


@given(st.times(), st.integers(-15 * 3600 - 3599, 15 * 3600 + 3599))
def test_a_timetz_is_its_time_in_utc_whatever_the_day(clock, offset_s):
    moved = datetime(2000, 1, 2, clock.hour, clock.minute, clock.second, clock.microsecond, tzinfo=UTC) - timedelta(seconds=offset_s)

    assert read("timetz", server_text(clock) + offset_text(offset_s)) == f"{server_text(moved.time())}Z"


@given(st.times())
def test_a_time_is_counted_from_midnight(clock):
    micros = ((clock.hour * 60 + clock.minute) * 60 + clock.second) * 1_000_000 + clock.microsecond
    text = server_text(clock)

    assert (
        read("time", text)
        == read("time", text, "microseconds")
        == read("time", text, length=3, mode="adaptive_time_microseconds")
        == micros
    )
    assert read("time", text, "nanoseconds") == micros * 1000
    assert read("time", text, "connect") == read("time", text, length=2) == micros // 1000
    assert read("time", text, "isostring") == f"{text}Z"


def test_midnight_at_the_end_of_the_day_is_a_whole_day():
    assert read("time", "24:00:00") == 86_400_000_000
    assert read("time", "24:00:00", length=3) == read("time", "24:00:00", "connect") == 86_400_000
    assert read("time", "24:00:00", "nanoseconds") == 86_400_000_000_000
    assert read("time", "24:00:00", "isostring") == read("timetz", "24:00:00+00") == "00:00:00Z"
    assert read("timetz", "24:00:00-05") == "05:00:00Z"


def test_the_calendar_goes_on_by_one_day_a_day_over_all_years_of_the_server():
    days = moments.day_number(-4713, 11, 24)  # the first day of a date
    for year in range(-4713, 20_000):
        first = days if year == -4713 else moments.day_number(year, 1, 1)
        leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        assert moments.day_number(year, 12, 31) - first == (365 if leap else 364) - (327 if year == -4713 else 0) - (
            leap and year == -4713
        ), year
        assert moments.day_number(year + 1, 1, 1) - moments.day_number(year, 12, 31) == 1
        for month, day in ((1, 1), (2, 28), (3, 1), (12, 31)):
            assert moments.calendar_date(moments.day_number(year, month, day)) == (year, month, day)
    assert moments.calendar_date(moments.day_number(5_874_897, 12, 31)) == (5_874_897, 12, 31)


def test_a_day_that_the_calendar_does_not_have_is_none():
    for year, month, day in ((2023, 2, 29), (1900, 2, 29), (0, 13, 1), (-1, 4, 31), (2000, 0, 1)):
        with pytest.raises(ValueError, match="month|day"):
            moments.day_number(year, month, day)


def test_years_before_christ_are_those_of_the_proleptic_gregorian_calendar():
    assert read("date", "0001-12-31 BC") == read("date", "0001-01-01") - 1
    assert read("date", "4713-01-01 BC", "isostring") == "-4712-01-01Z"
    assert read("timestamp", "0001-12-31 23:59:59.5 BC", "isostring") == "0000-12-31T23:59:59.5Z"
    assert read("timestamptz", "4714-11-24 00:00:00+00 BC") == "-4713-11-24T00:00:00.000000Z"
    assert read("timestamp", "4714-11-24 00:00:00 BC") == -210_866_803_200_000_000


def test_years_of_more_than_four_digits_have_their_sign():
    assert read("date", "10000-01-01", "isostring") == "+10000-01-01Z"
    assert read("date", "5874897-12-31", "isostring") == "+5874897-12-31Z"
    assert read("timestamptz", "294276-12-31 23:59:59.999999+00") == "+294276-12-31T23:59:59.999999Z"
    assert read("timestamp", "294276-12-31 23:59:59.999999", "isostring") == "+294276-12-31T23:59:59.999999Z"


def test_infinite_timestamps_are_debezium_s_constants():
    assert [read("timestamp", t) for t in ("infinity", "-infinity")] == [9_223_372_036_825_200_000, -9_223_372_036_832_400_000]
    assert [read("timestamp", t, length=3) for t in ("infinity", "-infinity")] == [9_223_372_036_825_200, -9_223_372_036_832_400]
    assert [read("timestamp", t, "nanoseconds") for t in ("infinity", "-infinity")] == [2**63 - 1, -(2**63)]
    assert [read("timestamp", t, "isostring") for t in ("infinity", "-infinity")] == [
        "+294247-01-10T04:00:25.2Z",
        "-290308-12-21T19:59:27.6Z",
    ]
    assert [read("timestamptz", t) for t in ("infinity", "-infinity")] == ["infinity", "-infinity"]


def test_infinite_dates_are_debezium_s_constants():
    assert [read("date", t) for t in ("infinity", "-infinity")] == [-2_147_472_692, -2_147_472_691]
    assert [read("date", t, "isostring") for t in ("infinity", "-infinity")] == ["-5877611-06-21Z", "-5877611-06-22Z"]


@pytest.mark.parametrize("text", ["1677-09-21 23:59:59.999999", "2262-04-11 23:47:16.854776", "0001-01-01 00:00:00 BC"])
def test_a_timestamp_that_64_bits_of_nanoseconds_do_not_hold_is_null_or_an_error(text):
    assert read("timestamp", text, "nanoseconds") is None
    for more in ({"nullable": False}, {"failures": "fail"}):
        with pytest.raises(BadRowsError, match=r"column c: a timestamp before 1677-09-22 .* set time.precision.mode=microseconds"):
            read("timestamp", text, "nanoseconds", **more)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("date", "2020-1-1"),
        ("date", "01/02/2020"),
        ("time", "1:2:3"),
        ("timestamp", "2020-01-01T00:00:00"),
        ("timestamp", "2020-02-30 00:00:00"),
    ],
)
def test_a_text_of_another_date_style_is_refused_and_not_quoted(name, text):
    with pytest.raises(BadRowsError, match="the session's DateStyle, IntervalStyle or bytea_output is not the one that was set") as e:
        read(name, text)

    assert text not in str(e.value)


def test_a_timestamp_of_the_last_years_is_null_or_an_error_in_microseconds_and_has_milliseconds():
    last, beyond = "294247-01-10 04:00:54.775807", "294247-01-10 04:00:54.775808"

    assert read("timestamp", last) == 2**63 - 1
    assert read("timestamp", beyond) is None
    assert read("timestamp", beyond, "connect") == 2**63 // 1000
    with pytest.raises(BadRowsError, match=r"after 294247-01-10 cannot be written in microseconds; set time.precision.mode=isostring"):
        read("timestamp", beyond, nullable=False)


@pytest.mark.parametrize(
    ("name", "length", "mode", "source", "form", "schema"),
    [
        ("date", None, "adaptive", PgSource.DATE, Form.DAYS, "io.debezium.time.Date"),
        ("date", None, "connect", PgSource.DATE, Form.DAYS, "org.apache.kafka.connect.data.Date"),
        ("date", None, "isostring", PgSource.DATE, Form.ISO_DATE, "io.debezium.time.IsoDate"),
        ("time", None, "adaptive", PgSource.TIME, Form.MICROS, "io.debezium.time.MicroTime"),
        ("time", 0, "adaptive", PgSource.TIME, Form.MILLIS, "io.debezium.time.Time"),
        ("time", 3, "adaptive", PgSource.TIME, Form.MILLIS, "io.debezium.time.Time"),
        ("time", 4, "adaptive", PgSource.TIME, Form.MICROS, "io.debezium.time.MicroTime"),
        ("time", 3, "adaptive_time_microseconds", PgSource.TIME, Form.MICROS, "io.debezium.time.MicroTime"),
        ("time", 3, "nanoseconds", PgSource.TIME, Form.NANOS, "io.debezium.time.NanoTime"),
        ("timestamp", None, "adaptive", PgSource.TIMESTAMP, Form.MICROS, "io.debezium.time.MicroTimestamp"),
        ("timestamp", 3, "adaptive_time_microseconds", PgSource.TIMESTAMP, Form.MILLIS, "io.debezium.time.Timestamp"),
        ("timestamp", 3, "microseconds", PgSource.TIMESTAMP, Form.MICROS, "io.debezium.time.MicroTimestamp"),
        ("timestamp", None, "isostring", PgSource.TIMESTAMP, Form.ISO_TIMESTAMP, "io.debezium.time.IsoTimestamp"),
        ("timestamptz", None, "connect", PgSource.TIMESTAMPTZ, Form.ZONED_TIMESTAMP, "io.debezium.time.ZonedTimestamp"),
        ("timetz", None, "nanoseconds", PgSource.TIMETZ, Form.ISO_TIME, "io.debezium.time.ZonedTime"),
    ],
)
def test_source_form_and_schema_follow_type_and_mode(name, length, mode, source, form, schema):
    plan, _ = plan_of(name, mode, length=length)

    assert (plan.source, plan.form, plan.schema.name) == (source, form, schema)


def test_a_compiled_reader_finds_the_digits_of_a_timestamptz_in_the_plan():
    assert [plan_of("timestamptz", length=length)[0].length for length in (None, 0, 3)] == [6, 0, 3]
