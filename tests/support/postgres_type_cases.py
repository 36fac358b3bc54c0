"""Columns of every type of PostgreSQL with their DDL and values, for type tests and the recording.

Each case is a ``Column`` as the catalog describes it. `postgres_types.json` in the folder
`debezium` holds how Debezium 3.6.1.Final converts that column and those values from a pgoutput
stream, and the server's text of each value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dblog.model import Column

SETTINGS = {
    "DateStyle": "ISO",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "extra_float_digits": "3",
    "bytea_output": "hex",
    "client_encoding": "UTF8",
}
"""Settings of every session that reads rows."""

PREPARATION = (
    *(f"CREATE EXTENSION {name}" for name in ("hstore", "citext", "ltree", "isn", "postgis", "vector")),
    "CREATE TYPE mood AS ENUM ('sad', 'ok', 'a,b', 'happy')",
    "CREATE TYPE \"Mood\" AS ENUM ('x')",
    "CREATE TYPE pair AS (x int, y text)",
    "CREATE DOMAIN positive AS int CHECK (VALUE > 0)",
    "CREATE DOMAIN short AS varchar(5)",
    "CREATE DOMAIN shorter AS short",
    "CREATE DOMAIN price AS numeric(8,3)",
    "CREATE FUNCTION made() RETURNS uuid LANGUAGE sql AS 'SELECT gen_random_uuid()'",
    "CREATE SEQUENCE numbers",
)


@dataclass(frozen=True, slots=True)
class TypeCase:
    """A column with SQL expressions as ``values``; ``sql_default`` is the DEFAULT of the column."""

    column: Column
    values: tuple[str, ...] = ()
    sql_default: str | None = None

    @property
    def ddl(self) -> str:
        parts = ["c", self.column.type_text]
        if not self.column.nullable:
            parts.append("NOT NULL")
        if self.sql_default is not None:
            parts.append(f"DEFAULT {self.sql_default}")
        return " ".join(parts)


def case(type_text: str, name: str, *values: str, **more: Any) -> TypeCase:
    return TypeCase(Column(name="c", type=name, type_text=type_text, **{"nullable": True, **more}), values)


def both(type_text: str, name: str, *values: str, **more: Any) -> list[TypeCase]:
    return [case(type_text, name, *values, **more), case(type_text, name, *values[:1], nullable=False, **more)]


def default(
    type_text: str, name: str, text: str | None, sql: str, *, expression: bool = False, nullable: bool = True, **more: Any
) -> TypeCase:
    kept = Column(
        name="c",
        type=name,
        type_text=type_text,
        nullable=nullable,
        has_default=True,
        default=text,
        default_is_expression=expression,
        **more,
    )
    return TypeCase(kept, (), sql)


MOODS = ("sad", "ok", "a,b", "happy")

CASES: list[TypeCase] = [
    *both("boolean", "bool", "true", "false"),
    *both("smallint", "int2", "-32768", "32767", "0"),
    *both("integer", "int4", "-2147483648", "2147483647"),
    *both("bigint", "int8", "-9223372036854775808", "9223372036854775807"),
    *both("oid", "oid", "4294967295", "0"),
    *both("real", "float4", "1.1", "-3.4028235e38", "1e-45", "'NaN'", "'Infinity'", "'-Infinity'", "0", "16777217", "'-0'"),
    *both("double precision", "float8", "1.1", "1.7976931348623157e308", "5e-324", "'NaN'", "'Infinity'", "'-Infinity'", "1e7", "0.001", "'-0'"),
    *both("numeric(10,2)", "numeric", "12345678.90", "-0.01", "0", "127", "1.28", "-1.28", "'NaN'", length=10, scale=2),
    *both("numeric(5,0)", "numeric", "99999", "-128", "'NaN'", length=5, scale=0),
    *both("numeric(38,20)", "numeric", "-123456789012345678.12345678901234567890", "0.00000000000000000001", length=38, scale=20),
    *both("numeric", "numeric", "1.50", "-100", "0.000", "1e20", "1e-20", "123456789012345678901234567890.5", "'NaN'", "'Infinity'", "'-Infinity'"),
    *both("money", "money", "'$1,234.50'", "'-0.01'", "'0'", "'-92233720368547758.08'"),
    *both("text", "text", "'a'", "''", "E'tab\\t\"q\" žš \U0001f600'", "repeat('x', 100)"),
    *both("character varying(10)", "varchar", "'abc'", "''", "'0123456789'", length=10),
    case("character varying", "varchar", "'abc'"),
    *both("character(5)", "bpchar", "'ab'", "'abcde'", length=5),
    case('"char"', "char", "'x'"),
    case("name", "name", "'a_name'"),
    *both("citext", "citext", "'CaSe'"),
    case("isbn", "isbn", "'978-0-393-04002-9'"),
    case("isbn13", "isbn13", "'978-0-393-04002-9'"),
    *both("uuid", "uuid", "'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'"),
    *both("json", "json", """'{"b": 1,  "a": [1, 2]}'"""),
    *both("jsonb", "jsonb", """'{"b": 1,  "a": [1, 2.50]}'"""),
    *both("xml", "xml", "'<a>1</a><b/>'"),
    *both("bytea", "bytea", r"'\x0001ff'", "''", r"'\xfbff'"),
    *both("bit(1)", "bit", "B'1'", "B'0'", length=1),
    *both("bit(12)", "bit", "B'100000000001'", "B'000000000001'", "B'000000000000'", length=12),
    *both("bit varying(1)", "varbit", "B'1'", "B'0'", "B''", length=1),
    *both("bit varying(10)", "varbit", "B'1100000000'", "B'101'", "B''", length=10),
    *both("bit varying", "varbit", "B'111011010001000110000001000000001'"),
    *both("date", "date", "'2016-11-04'", "'1969-12-31'", "'0001-01-01'", "'0044-03-15 BC'", "'4713-01-01 BC'", "'5874897-12-31'", "'infinity'", "'-infinity'", "'10000-01-01'"),
    *both("time without time zone", "time", "'13:51:30.123456'", "'00:00'", "'24:00:00'", "'13:51:30'"),
    *both("time(3) without time zone", "time", "'13:51:30.123'", "'24:00:00'", length=3),
    case("time(0) without time zone", "time", "'13:51:30'", length=0),
    case("time(6) without time zone", "time", "'13:51:30.5'", length=6),
    *both("time with time zone", "timetz", "'13:51:30.123789+02'", "'00:00+02'", "'23:59:59-05:30'", "'24:00:00+00'"),
    case("time(2) with time zone", "timetz", "'13:51:30.12+02'", length=2),
    *both("timestamp without time zone", "timestamp", "'2016-11-04 13:51:30.123456'", "'1936-10-25 22:10:12.608'", "'1677-09-21 12:00:00'", "'1677-09-22 00:00:00'", "'2262-04-11 23:47:16.854775'", "'2262-04-11 23:47:16.854776'", "'21016-11-04 13:51:30.123457'", "'294246-12-31 23:59:59.999999'", "'4713-12-31 23:59:59.999999 BC'", "'0001-12-31 23:59:59 BC'", "'infinity'", "'-infinity'"),
    *both("timestamp(3) without time zone", "timestamp", "'2016-11-04 13:51:30.123'", "'1969-12-31 23:59:59.999'", "'infinity'", "'-infinity'", length=3),
    case("timestamp(0) without time zone", "timestamp", "'2016-11-04 13:51:30'", length=0),
    case("timestamp(4) without time zone", "timestamp", "'1969-12-31 23:59:59.9999'", length=4),
    *both("timestamp with time zone", "timestamptz", "'2016-11-04 13:51:30.123456+02'", "'2020-04-01 11:51:02Z'", "'21016-11-04 13:51:30.123456+07'", "'294246-12-31 23:59:59.999999Z'", "'4714-12-31 23:59:59.999999Z BC'", "'0001-01-01 00:00:00Z'", "'infinity'", "'-infinity'"),
    *both("timestamp(3) with time zone", "timestamptz", "'2016-11-04 13:51:30.1+02'", "'2020-04-01 11:51:02Z'", length=3),
    *both("timestamp(0) with time zone", "timestamptz", "'2016-11-04 13:51:30+02'", length=0),
    *both("interval", "interval", "'P1Y2M3DT4H5M6.78S'", "'-1 year -2 mons 3 days -04:05:06.789'", "'0'", "'-0.000001 seconds'", "'178000000 years'", "'100 hours'", "'1 mon -1 day'", "'00:00:00.1'", "'-00:30:00'", "'2 years'"),
    case("interval day to second(3)", "interval", "'3 days 04:05:06.789'", length=3),
    *both("hstore", "hstore", "'key=>val'", "'key4=>val4, key5=>NULL'", r"""'"a \"b\\ \t"=>"1,=>2", "ž"=>"😀", ""=>""'""", "''", "hstore(array(SELECT 'k' || n FROM generate_series(1, 40) n), array(SELECT n::text FROM generate_series(1, 40) n))"),
    *both("inet", "inet", "'192.168.2.0/12'", "'::1'"),
    case("cidr", "cidr", "'192.168.100.128/25'"),
    case("macaddr", "macaddr", "'08002b010203'"),
    case("macaddr8", "macaddr8", "'08002b0102030405'"),
    *both("int4range", "int4range", "'[1000,6000)'", "'empty'", "'(,)'"),
    case("int8range", "int8range", "'[1000000,6000000)'"),
    case("numrange", "numrange", "'[5.3,6.3)'"),
    case("tsrange", "tsrange", "'[2019-03-31 15:30:00, infinity)'"),
    case("daterange", "daterange", "'[2019-03-31,2019-04-30)'"),
    case("int4multirange", "int4multirange", "'{[1,3),[5,7)}'"),
    *both("point", "point", "'(1,2.5)'", "'(-1e300,1e-300)'", "'(Infinity,NaN)'"),
    case("circle", "circle", "'<(10,20),1.5>'"),
    case("box", "box", "'(1,2),(-3.5,4e20)'"),
    case("lseg", "lseg", "'[(1,2),(3,4)]'"),
    case("path", "path", "'[(1,2),(3,4)]'", "'((1,2),(3,4))'"),
    case("polygon", "polygon", "'((1,2),(3,4),(5,6))'"),
    case("line", "line", "'{1,-1,0}'"),
    case("tsvector", "tsvector", "'a:1A fat cat'"),
    case("tsquery", "tsquery", "'a & b'"),
    case("pg_lsn", "pg_lsn", "'16/B374D848'"),
    case("regclass", "regclass", "'pg_class'"),
    case("xid8", "xid8", "'7'"),
    *both("ltree", "ltree", "'Top.Science'"),
    *both("mood", "enum", "'a,b'", "'ok'", members=MOODS),
    case('"Mood"', "enum", "'x'", members=("x",)),
    case("pair", "composite", "ROW(1, 'a,b')"),
    *both("positive", "int4", "7"),
    *both("short", "varchar", "'abc'", length=5),
    case("shorter", "varchar", "'abc'", length=5),
    case("price", "numeric", "1.5", length=8, scale=3),
    *both("geometry", "geometry", "'SRID=3187;POINT(174.9479 -36.7208)'", "'GEOMETRYCOLLECTION EMPTY'", "'POINT Z (1 2 3)'"),
    case("geometry(Point,4326)", "geometry", "'SRID=4326;POINT(1 2)'"),
    *both("geography", "geography", "'MULTILINESTRING((169.1321 -44.7032, 167.8974 -44.6414))'"),
    *both("vector(3)", "vector", "'[1,2.5,-3e-5]'", length=3),
    *both("halfvec(2)", "halfvec", "'[0.1,65504]'", length=2),
    *both("sparsevec(5)", "sparsevec", "'{1:1.5,3:2}/5'", "'{}/5'", length=5),
    case("sparsevec", "sparsevec", "'{1:1,2:2,17:3,33:4,65:5,129:6}/200'", "'{7:1}/40000'"),
    # Arrays
    *both("smallint[]", "_int2", "'{1,NULL,-3}'", "'{}'"),
    *both("integer[]", "_int4", "'{1,2,3}'", "'{}'", "'{NULL}'", "'[2:3]={5,6}'"),
    case("bigint[]", "_int8", "'{1550166368505037572}'"),
    case("oid[]", "_oid", "'{3,4000000000}'"),
    case("text[]", "_text", """'{one,"two, three",NULL,"NULL","","q\\"\\\\"," ","ž"}'"""),
    case("character varying(10)[]", "_varchar", "'{a,b}'", length=10),
    case("character(4)[]", "_bpchar", "'{a,b}'", length=4),
    case("numeric(10,2)[]", "_numeric", "'{1.2,3.45,NULL}'", "'{NaN}'", length=10, scale=2),
    case("numeric[]", "_numeric", "'{1.10,2.22,3.333,100}'"),
    case("real[]", "_float4", "'{1.1,NaN}'"),
    case("double precision[]", "_float8", "'{1.1,-Infinity}'"),
    case("boolean[]", "_bool", "'{t,f,NULL}'"),
    case("date[]", "_date", "'{2016-11-04,2016-11-05}'"),
    case("inet[]", "_inet", "'{192.168.2.0/12,::1}'"),
    case("cidr[]", "_cidr", "'{192.168.100.128/25}'"),
    case("macaddr[]", "_macaddr", "'{08-00-2b-01-02-03}'"),
    case("macaddr8[]", "_macaddr8", "'{08002b0102030405}'"),
    case("tsrange[]", "_tsrange", """'{"[2019-03-31 15:30:00, infinity)"}'"""),
    case("int4range[]", "_int4range", """'{"[1,6)","[1,4)"}'"""),
    case("uuid[]", "_uuid", "'{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}'"),
    case("json[]", "_json", """array['{"bar": "baz"}']::json[]"""),
    case("jsonb[]", "_jsonb", """array['{"bar": "baz"}']::jsonb[]"""),
    case("time without time zone[]", "_time", "'{00:01:02,01:02:03}'"),
    case("time(3) without time zone[]", "_time", "'{00:01:02.5}'", length=3),
    case("time with time zone[]", "_timetz", "'{13:51:02+02}'"),
    case("timestamp without time zone[]", "_timestamp", "'{2020-04-01 00:01:02}'"),
    case("timestamp(3) without time zone[]", "_timestamp", "'{2020-04-01 00:01:02.5}'", length=3),
    case("timestamp with time zone[]", "_timestamptz", "'{2020-04-01 13:51:02+02}'"),
    case("bytea[]", "_bytea", r"""array['\x000102'::bytea, '\x030405']"""),
    case("mood[]", "_enum", """'{sad,"a,b"}'""", "'{sad,NULL}'", members=MOODS),
    case("hstore[]", "_hstore", "array['key4=>val4,key5=>NULL'::hstore, 'key6=>val6']"),
    case("citext[]", "_citext", "'{four,five}'"),
    case("ltree[]", "_ltree", "'{Ship.Frigate,Ship.Destroyer}'"),
    case("geometry[]", "_geometry", "array['POINT(1 2)'::geometry, 'SRID=4326;POINT(1 2)']"),
    case("geography[]", "_geography", "array['POINT(1 2)'::geography]"),
    case("tsvector[]", "_tsvector", "array['a b'::tsvector]"),
    case("vector(2)[]", "_vector", "array['[1,2]'::vector]"),
    case("isbn[]", "_isbn", "array['978-0-393-04002-9'::isbn]"),
    case("money[]", "_money", "'{1}'"),
    case("name[]", "_name", "'{a}'"),
    case("interval[]", "_interval", "'{1 day}'"),
    case("bit varying[]", "_varbit", "'{1}'"),
    case("xml[]", "_xml", "array['<a/>'::xml]"),
    case("point[]", "_point", """'{"(1,2)"}'"""),
    case("refcursor[]", "_refcursor", "'{a}'"),
    case("pair[]", "_composite", "array[ROW(1, 'a')::pair]"),
    case("pg_lsn[]", "_pg_lsn", "'{16/B374D848}'"),
    # Defaults
    default("boolean", "bool", "true", "true"),
    default("boolean", "bool", "false", "false", nullable=False),
    default("boolean", "bool", None, "NULL::boolean"),
    default("smallint", "int2", "7", "7", nullable=False),
    default("integer", "int4", "-7", "-7"),
    default("integer", "int4", "nextval('numbers'::regclass)", "nextval('numbers')", expression=True, nullable=False),
    default("integer", "int4", "nextval('numbers'::regclass)", "nextval('numbers')", expression=True),
    default("integer", "int4", "(1 + 2)", "1 + 2", expression=True),
    default("bigint", "int8", "9223372036854775807", "9223372036854775807", nullable=False),
    default("oid", "oid", "7", "7"),
    default("real", "float4", "1.5", "1.5"),
    default("double precision", "float8", "2.5e10", "2.5e10", nullable=False),
    default("double precision", "float8", "random()", "random()", expression=True),
    default("numeric(10,2)", "numeric", "1.5", "1.5", length=10, scale=2),
    default("numeric(12,0)", "numeric", "0.0", "0.0", nullable=False, length=12, scale=0),
    default("numeric(5,2)", "numeric", "1.234", "1.234", length=5, scale=2),
    default("numeric", "numeric", "1.5", "1.5"),
    default("numeric(10,2)", "numeric", "round(1.5)", "round(1.5)", expression=True, length=10, scale=2),
    default("money", "money", "1", "1"),
    default("text", "text", "abc", "'abc'"),
    default("text", "text", "", "''", nullable=False),
    default("text", "text", "NULL", "'NULL'"),
    default("text", "text", None, "NULL"),
    default("text", "text", "upper('x'::text)", "upper('x')", expression=True),
    default("character varying(10)", "varchar", " x ", "' x '", length=10),
    default("character(5)", "bpchar", "ab", "'ab'", length=5),
    default("citext", "citext", "x", "'x'"),
    default("uuid", "uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'"),
    default("uuid", "uuid", "gen_random_uuid()", "gen_random_uuid()", expression=True, nullable=False),
    default("uuid", "uuid", "public.made()", "public.made()", expression=True),
    default("json", "json", '{"a": 1}', """'{"a": 1}'"""),
    default("jsonb", "jsonb", "{}", "'{}'", nullable=False),
    default("xml", "xml", "<a/>", "'<a/>'"),
    default("bytea", "bytea", "\\x01", r"'\x01'"),
    default("bit(1)", "bit", "1", "B'1'", length=1),
    default("bit(3)", "bit", "101", "B'101'", length=3),
    default("bit varying(3)", "varbit", "10", "B'10'", length=3),
    default("date", "date", "2020-01-02", "'2020-01-02'"),
    default("date", "date", "CURRENT_DATE", "CURRENT_DATE", expression=True, nullable=False),
    default("time without time zone", "time", "10:11:12.5", "'10:11:12.5'"),
    default("time(3) without time zone", "time", "LOCALTIME", "LOCALTIME", expression=True, length=3),
    default("timestamp without time zone", "timestamp", "2020-01-02 03:04:05", "'2020-01-02 03:04:05'"),
    default("timestamp without time zone", "timestamp", "now()", "now()", expression=True, nullable=False),
    default("timestamp with time zone", "timestamptz", "2020-01-02 03:04:05+00", "'2020-01-02 03:04:05+00'"),
    default("timestamp with time zone", "timestamptz", "CURRENT_TIMESTAMP", "CURRENT_TIMESTAMP", expression=True),
    default("timestamp(0) with time zone", "timestamptz", "now()", "now()", expression=True, length=0),
    default("time with time zone", "timetz", "10:11:12+00", "'10:11:12+00'"),
    default("interval", "interval", "1 day 02:00:00", "'1 day 02:00:00'"),
    default("mood", "enum", "ok", "'ok'", nullable=False, members=MOODS),
    default('"Mood"', "enum", "x", "'x'", members=("x",)),
    default("positive", "int4", "3", "3"),
    default("integer[]", "_int4", "{1}", "'{1}'"),
    default("hstore", "hstore", "", "''", nullable=False),
    default("inet", "inet", "::1", "'::1'"),
]  # fmt: skip

MODES: tuple[dict[str, str], ...] = (
    {},
    {"decimal.handling.mode": "string"},
    {"decimal.handling.mode": "double"},
    *({"time.precision.mode": mode} for mode in ("adaptive_time_microseconds", "connect", "isostring", "microseconds", "nanoseconds")),
    *({"binary.handling.mode": mode} for mode in ("base64", "base64-url-safe", "hex")),
    {"hstore.handling.mode": "map"},
    {"interval.handling.mode": "string"},
    {"money.fraction.digits": "1"},
    {"include.unknown.datatypes": "true"},
    {"include.unknown.datatypes": "true", "binary.handling.mode": "hex"},
    {"unavailable.value.placeholder": "hex:80ff41"},
    {"column.propagate.source.type": ".*[.]c"},
    {"datatype.propagate.source.type": "public[.]t[0-9]+[.](int4|_numeric|mood)"},
    {"column.truncate.to.3.chars": ".*[.]c"},
    {"column.mask.with.4.chars": ".*[.]c"},
    {"column.mask.hash.v2.SHA-256.with.salt.x": ".*[.]c"},
)
