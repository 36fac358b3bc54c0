"""DDL statements by the hundred, run on real servers and through our parser: what information_schema says after each is the truth.

A case is a list of statements for a fresh database; ``servers`` names who understands it. Statements use no database name, so the session's database is the default
one, except where the case is about names.
"""

from __future__ import annotations

from dataclasses import dataclass

BOTH = ("mysql", "mariadb")


@dataclass(frozen=True, slots=True)
class Case:
    """Statements in order; ``sql_mode`` is set in the session before them."""

    name: str
    statements: tuple[str, ...]
    servers: tuple[str, ...] = BOTH
    sql_mode: str | None = None


def case(name: str, *statements: str, servers: tuple[str, ...] | str = BOTH, sql_mode: str | None = None) -> Case:
    return Case(name, statements, (servers,) if isinstance(servers, str) else servers, sql_mode)


def columns(name: str, *definitions: str, servers: tuple[str, ...] | str = BOTH, sql_mode: str | None = None, tail: str = "") -> Case:
    """One table with each definition as a column."""
    body = ", ".join(f"c{n} {definition}" for n, definition in enumerate(definitions))
    return case(name, f"CREATE TABLE t ({body}){tail}", servers=servers, sql_mode=sql_mode)


TYPES = [
    columns("integers", *(f"{t}{s}" for t in ("TINYINT", "SMALLINT", "MEDIUMINT", "INT", "INTEGER", "BIGINT") for s in ("", " UNSIGNED", " ZEROFILL", "(5)", "(5) UNSIGNED"))),
    columns("integer synonyms", "INT1", "INT2", "INT3", "INT4", "INT8", "MIDDLEINT UNSIGNED", "TINYINT(1)", "TINYINT(1) UNSIGNED", "BOOL", "BOOLEAN NOT NULL", "INT SIGNED", "INT(3) ZEROFILL UNSIGNED", "BIGINT SIGNED NOT NULL"),
    columns("decimals", "DECIMAL", "DECIMAL(5)", "DECIMAL(65,30)", "DEC(4,2)", "NUMERIC(10,4) UNSIGNED", "FIXED(6,3)", "DECIMAL(8,2) ZEROFILL", "NUMERIC", "DECIMAL(10,0)"),
    columns("floats", "FLOAT", "FLOAT(10)", "FLOAT(24)", "FLOAT(25)", "FLOAT(53)", "FLOAT(7,3)", "DOUBLE", "DOUBLE PRECISION", "DOUBLE(12,4)", "REAL", "REAL(8,2)", "FLOAT4", "FLOAT8", "FLOAT UNSIGNED", "DOUBLE UNSIGNED", "FLOAT(5,0)", "DOUBLE(12,4) ZEROFILL"),
    columns("real as float", "REAL", "REAL NOT NULL", sql_mode="REAL_AS_FLOAT"),
    columns("bits and years", "BIT", "BIT(1)", "BIT(8)", "BIT(64)", "YEAR", "YEAR(4)", "YEAR NOT NULL"),
    columns("temporal", "DATE", "TIME", "TIME(0)", "TIME(3)", "TIME(6)", "DATETIME", "DATETIME(1)", "DATETIME(6)", "TIMESTAMP NULL", "TIMESTAMP(3) NULL", "TIMESTAMP(6) NULL DEFAULT NULL"),
    columns("char types", "CHAR", "CHAR(0)", "CHAR(255)", "CHARACTER(3)", "VARCHAR(0)", "VARCHAR(10)", "VARCHAR(255)", "CHARACTER VARYING(20)", "CHAR VARYING(7)", "VARCHARACTER(5)"),
    columns("national", "NATIONAL CHAR(3)", "NCHAR(4)", "NCHAR", "NATIONAL VARCHAR(5)", "NVARCHAR(6)", "NCHAR VARCHAR(7)", "NCHAR VARYING(8)", "NATIONAL CHAR VARYING(9)", "NATIONAL CHARACTER(2)", "NATIONAL CHARACTER VARYING(12)"),
    columns("binary", "BINARY", "BINARY(16)", "VARBINARY(300)", "CHAR(5) BYTE", "VARCHAR(5) BYTE", "TEXT BYTE", "CHAR(3) CHARACTER SET binary", "VARCHAR(3) CHARSET binary", "MEDIUMTEXT CHARACTER SET binary"),
    columns("lobs", "TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB", "TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT", "LONG", "LONG VARCHAR", "LONG VARBINARY", "LONG CHAR VARYING"),
    columns("sized lobs", "TEXT(10)", "TEXT(63)", "TEXT(64)", "TEXT(255)", "TEXT(16383)", "TEXT(16384)", "TEXT(5000000)", "BLOB(255)", "BLOB(256)", "BLOB(65535)", "BLOB(65536)", "BLOB(16777216)", tail=" CHARSET utf8mb4"),
    columns("sized lobs in latin1", "TEXT(10)", "TEXT(255)", "TEXT(256)", "TEXT(65535)", "TEXT(65536)", "TEXT(16777216)", tail=" CHARSET latin1"),
    columns("enums", "ENUM('a','b')", "ENUM('it''s','say \"x\"','c,d','(e)')", "ENUM(\"dq\", 'x ')", "SET('a','b','c')", "SET('x') NOT NULL", "ENUM('é','日本')", "ENUM('') NOT NULL", "ENUM('a' , 'b') CHARACTER SET latin1"),
    columns("enum with escapes", r"ENUM('a\'b','c\\d','e\nf')", r"SET('p\tq','r\\\\s')"),
    columns("charsets", "VARCHAR(10) CHARACTER SET latin1", "VARCHAR(10) CHARSET utf8mb4 COLLATE utf8mb4_bin", "CHAR(5) COLLATE latin1_german1_ci", "TEXT CHARACTER SET ucs2", "VARCHAR(5) ASCII", "VARCHAR(5) UNICODE", "VARCHAR(5) BINARY", "VARCHAR(5) CHARACTER SET latin1 BINARY", "VARCHAR(5) BINARY CHARACTER SET latin1", "CHAR(5) ASCII BINARY", "VARCHAR(9) CHARACTER SET 'utf8mb4'", "VARCHAR(9) CHARACTER SET utf8mb4 COLLATE 'utf8mb4_unicode_ci'", "VARCHAR(9) NOT NULL COLLATE utf8mb4_bin", "VARCHAR(9) CHARACTER SET utf8", "ENUM('a') COLLATE utf8mb4_bin", "VARCHAR(9) CHARACTER SET gbk", "TEXT CHARACTER SET sjis", "CHAR(2) CHARACTER SET utf16", "CHAR(2) CHARACTER SET utf32", "VARCHAR(2) CHARACTER SET cp1251"),
    columns("charset of the table", "VARCHAR(10)", "TEXT", "ENUM('x')", "VARCHAR(10) CHARACTER SET utf8mb4", "INT", tail=" DEFAULT CHARACTER SET = latin1 COLLATE = latin1_bin"),
    columns("collation of the table", "VARCHAR(10)", "TEXT BINARY", tail=" COLLATE utf8mb4_unicode_ci"),
    columns("charset binary of the table", "VARCHAR(10)", "TEXT", "CHAR(3)", "VARCHAR(10) CHARACTER SET latin1", "TINYTEXT", tail=" CHARSET=binary"),
    columns("geometry", "GEOMETRY", "POINT NOT NULL", "LINESTRING", "POLYGON", "MULTIPOINT", "MULTILINESTRING", "MULTIPOLYGON", "GEOMETRYCOLLECTION"),
    columns("geometry of mysql", "GEOMCOLLECTION", "POINT SRID 4326", "GEOMETRY NOT NULL SRID 0", servers="mysql"),
    columns("geometry of mariadb", "POINT REF_SYSTEM_ID=101", "GEOMETRY NOT NULL REF_SYSTEM_ID = 0", servers="mariadb"),
    columns("json", "JSON", "JSON NOT NULL", "JSON DEFAULT NULL"),
    columns("json default", "JSON DEFAULT (JSON_OBJECT())", "JSON DEFAULT ('{}')", "JSON NOT NULL DEFAULT ('[]')"),
    columns("vector", "VECTOR(3)", "VECTOR", "VECTOR(16) NOT NULL", servers="mysql"),
    columns("mariadb types", "UUID", "UUID NOT NULL", "INET6", "INET4", "INET6 DEFAULT '::1'", "UUID DEFAULT UUID()", servers="mariadb"),
    columns("compressed", "VARCHAR(1000) COMPRESSED", "TEXT COMPRESSED", "BLOB COMPRESSED=zlib NOT NULL", "VARBINARY(500) COMPRESSED", "LONGTEXT COMPRESSED CHARACTER SET latin1", servers="mariadb"),
    columns("oracle types", "VARCHAR2(10)", "NUMBER", "NUMBER(5)", "NUMBER(5,2)", "RAW(16)", "CLOB", "BLOB", "DATE", servers="mariadb", sql_mode="ORACLE"),
    columns("varchar too long for strict", "VARCHAR(70000) CHARACTER SET latin1", "VARBINARY(70000)", sql_mode=""),
    case("serial", "CREATE TABLE t (id SERIAL, a INT)", "CREATE TABLE u (id BIGINT UNSIGNED SERIAL DEFAULT VALUE)", "CREATE TABLE v (id SERIAL PRIMARY KEY)"),
]

DEFAULTS = [
    columns("integer defaults", "INT DEFAULT 5", "INT DEFAULT '6'", "INT DEFAULT -7", "INT DEFAULT +8", "INT NOT NULL DEFAULT 0", "BOOL DEFAULT TRUE", "BOOL DEFAULT FALSE", "BIGINT UNSIGNED DEFAULT 18446744073709551615", "INT DEFAULT NULL", "INT NULL", "INT(5) ZEROFILL DEFAULT 42", "INT DEFAULT 0x10", "INT DEFAULT b'101'", "YEAR DEFAULT 1999", "YEAR DEFAULT '2001'", "YEAR DEFAULT 99", "YEAR DEFAULT 0"),
    columns("decimal defaults", "DECIMAL(5,2) DEFAULT 1", "DECIMAL(5,2) DEFAULT '2.5'", "DECIMAL(10,0) DEFAULT 3", "DECIMAL(5,2) NOT NULL DEFAULT -0.10", "DECIMAL(30,10) DEFAULT 12345678901234567890.5", "DECIMAL(5,2) DEFAULT 1e1"),
    columns("float defaults", "FLOAT DEFAULT 1.5", "DOUBLE DEFAULT 2", "DOUBLE DEFAULT 1e3", "FLOAT DEFAULT '0.25'", "DOUBLE(10,3) DEFAULT 1.5", "FLOAT DEFAULT .5", "DOUBLE DEFAULT -3.125"),
    columns("text defaults", "VARCHAR(20) DEFAULT 'x'", "VARCHAR(20) DEFAULT ''", "VARCHAR(20) NOT NULL DEFAULT 'it''s'", r"VARCHAR(20) DEFAULT 'a\'b'", r"VARCHAR(20) DEFAULT 'c\\d'", r"VARCHAR(20) DEFAULT 'e\nf'", "VARCHAR(20) DEFAULT \"dq\"", "VARCHAR(20) DEFAULT 5", "VARCHAR(20) DEFAULT 'NULL'", "VARCHAR(40) DEFAULT 'CURRENT_TIMESTAMP'", "CHAR(3) DEFAULT 'a' 'b'", "VARCHAR(20) DEFAULT _utf8mb4'é'", "VARCHAR(20) DEFAULT N'n'", "VARCHAR(10) DEFAULT 0x4142", "VARCHAR(10) DEFAULT x'43'", "CHAR(5) DEFAULT 'ab   '", "VARCHAR(20) DEFAULT '-- no comment'", "VARCHAR(20) DEFAULT '/* nor this */'"),
    columns("enum defaults", "ENUM('a','b') DEFAULT 'b'", "ENUM('a','b') NOT NULL DEFAULT 'a'", "SET('a','b','c') DEFAULT 'a,c'", "SET('a','b','c') NOT NULL DEFAULT ''", "SET('a','b','c') DEFAULT 'c,a'", "ENUM('A','b') DEFAULT 'a'"),
    columns("bit defaults", "BIT DEFAULT 1", "BIT DEFAULT b'0'", "BIT(8) DEFAULT b'101'", "BIT(8) DEFAULT 0x0F", "BIT(8) DEFAULT 5", "BIT(8) NOT NULL DEFAULT 0"),
    columns("temporal defaults", "DATE DEFAULT '2024-01-02'", "DATE DEFAULT 20240102", "DATE DEFAULT '2024-1-2'", "DATETIME DEFAULT '2024-01-02 03:04:05'", "DATETIME(3) DEFAULT '2024-01-02 03:04:05'", "DATETIME DEFAULT '2024-01-02'", "DATETIME(6) DEFAULT '2024-01-02 03:04:05.5'", "DATETIME DEFAULT 20240102030405", "TIME DEFAULT '10:11:12'", "TIME DEFAULT '10:11'", "TIME(2) DEFAULT '10:11:12.5'", "TIME DEFAULT '-100:00:00'", "DATE DEFAULT DATE'2024-01-02'", "DATETIME DEFAULT TIMESTAMP'2024-01-02 03:04:05'", "TIME DEFAULT 101112", "TIMESTAMP NOT NULL DEFAULT '2024-01-02 03:04:05'", "DATE DEFAULT '24-01-02'"),
    columns("zero dates", "DATE NOT NULL DEFAULT '0000-00-00'", "DATETIME NOT NULL DEFAULT '0000-00-00 00:00:00'", "TIMESTAMP NOT NULL DEFAULT 0", "DATETIME DEFAULT 0", "DATE DEFAULT 0", "DATETIME(3) DEFAULT '0000-00-00'", sql_mode=""),
    columns("now", "TIMESTAMP DEFAULT CURRENT_TIMESTAMP", "TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP", "DATETIME DEFAULT NOW()", "DATETIME(6) DEFAULT CURRENT_TIMESTAMP(6)", "DATETIME(3) NOT NULL DEFAULT NOW(3) ON UPDATE NOW(3)", "TIMESTAMP NULL ON UPDATE CURRENT_TIMESTAMP()", "DATETIME DEFAULT LOCALTIME", "DATETIME DEFAULT LOCALTIMESTAMP()", "DATETIME DEFAULT '2020-01-01' ON UPDATE NOW()", "DATETIME ON UPDATE CURRENT_TIMESTAMP"),
    columns("expressions", "INT DEFAULT (1+2)", "VARCHAR(40) DEFAULT (UUID())", "VARCHAR(40) NOT NULL DEFAULT (CONCAT('a',')','b'))", "DATETIME DEFAULT (NOW())", "TEXT DEFAULT ('x')", "BLOB DEFAULT ('abc')", "DOUBLE DEFAULT (RAND())", "DATE DEFAULT (CURRENT_DATE)", "DATE DEFAULT (CURRENT_DATE + INTERVAL 1 YEAR)"),
    columns("plain expressions", "INT DEFAULT 1+2", "VARCHAR(40) DEFAULT UUID()", "VARCHAR(40) DEFAULT CONCAT('a',',','b')", "TEXT DEFAULT 'x'", "BLOB DEFAULT 'abc'", "DATE DEFAULT CURDATE()", "INT DEFAULT -(3)", "INT DEFAULT 2*3 NOT NULL", servers="mariadb"),
    case("a column's default from another", "CREATE TABLE t (a INT, b INT DEFAULT (a+1), c INT NOT NULL DEFAULT (a*b))"),
    columns("binary defaults", "BINARY(3) DEFAULT 'a'", "VARBINARY(10) DEFAULT 'abc'", "VARBINARY(10) DEFAULT 0x616263", "BINARY(2) NOT NULL DEFAULT ''"),
    case("timestamps without explicit defaults", "CREATE TABLE t (a TIMESTAMP, b TIMESTAMP, c TIMESTAMP NULL, d TIMESTAMP(3) NOT NULL, e TIMESTAMP DEFAULT '2020-01-01', f TIMESTAMP ON UPDATE CURRENT_TIMESTAMP)", "CREATE TABLE u (a TIMESTAMP NULL, b TIMESTAMP)", "CREATE TABLE v (a INT, b TIMESTAMP(6))", "ALTER TABLE v ADD c TIMESTAMP, ADD d TIMESTAMP", sql_mode="implicit_timestamps"),
    columns("timestamps with explicit defaults", "TIMESTAMP", "TIMESTAMP NOT NULL", "TIMESTAMP NULL", "TIMESTAMP DEFAULT NULL", "TIMESTAMP(3) NOT NULL", sql_mode="explicit_timestamps"),
]

CREATE = [
    case("plain", "CREATE TABLE t (id INT NOT NULL AUTO_INCREMENT, name VARCHAR(50) NOT NULL, PRIMARY KEY (id)) ENGINE=InnoDB AUTO_INCREMENT=10 DEFAULT CHARSET=utf8mb4 COMMENT='the table'"),
    case("lower case keywords", "create table t (id int not null primary key auto_increment, v varchar(5) default 'x' comment 'c') engine innodb"),
    case("primary key on a column", "CREATE TABLE t (id INT PRIMARY KEY, v INT)", "CREATE TABLE u (id INT KEY)"),
    case("primary key makes columns not null", "CREATE TABLE t (a INT, b VARCHAR(10), c INT NULL, PRIMARY KEY (b, a))"),
    case("key order is not column order", "CREATE TABLE t (a INT NOT NULL, b INT NOT NULL, c INT NOT NULL, PRIMARY KEY (c, a))"),
    case("named primary key", "CREATE TABLE t (a INT NOT NULL, CONSTRAINT pk PRIMARY KEY USING BTREE (a))"),
    case("prefix primary key", "CREATE TABLE t (a VARCHAR(100) NOT NULL, b BLOB NOT NULL, PRIMARY KEY (a(10), b(5)))"),
    case("unique not null is the key", "CREATE TABLE t (a INT, b INT NOT NULL, c INT NOT NULL, UNIQUE KEY u1 (a), UNIQUE u2 (b, c))"),
    case("no key", "CREATE TABLE t (a INT, b INT, UNIQUE (a), KEY (b))"),
    case("order of unique keys", "CREATE TABLE t (a INT NOT NULL, b VARCHAR(20) NOT NULL, c INT, UNIQUE z (c), UNIQUE y (b(5)), UNIQUE x (a), UNIQUE w (b))"),
    case("two unique keys not null", "CREATE TABLE t (a INT NOT NULL, b INT NOT NULL, UNIQUE zz (b), UNIQUE aa (a))"),
    case("unique column attribute", "CREATE TABLE t (a INT NOT NULL UNIQUE, b INT UNIQUE KEY, c INT NOT NULL)"),
    case("index names the server chooses", "CREATE TABLE t (a INT NOT NULL, b INT, KEY (a), UNIQUE (a, b), UNIQUE (a), INDEX a_3 (b), KEY (b), UNIQUE KEY `x y` (b, a))"),
    case("all kinds of index", "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(100), b TEXT, g POINT NOT NULL, KEY k1 (a(10)) USING BTREE COMMENT 'c', FULLTEXT KEY ft (b), FULLTEXT (a, b) WITH PARSER ngram, SPATIAL INDEX sp (g), INDEX k2 USING HASH (a) KEY_BLOCK_SIZE=8)", servers="mysql"),
    case("all kinds of index, mariadb", "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(100), b TEXT, g POINT NOT NULL, KEY k1 (a(10)) USING BTREE COMMENT 'c', FULLTEXT KEY ft (b), SPATIAL INDEX sp (g), INDEX k2 (a) IGNORED)", servers="mariadb"),
    case("descending and functional", "CREATE TABLE t (a INT NOT NULL, b INT, KEY (a DESC, b ASC), KEY f ((a + b)), UNIQUE fu ((a * 2)), KEY ((abs(b))), KEY i (b) INVISIBLE)", servers="mysql"),
    case("foreign keys", "CREATE TABLE p (id INT PRIMARY KEY, x INT NOT NULL, UNIQUE (x))", "CREATE TABLE t (a INT PRIMARY KEY, b INT, c INT, FOREIGN KEY (b) REFERENCES p (id) ON DELETE CASCADE ON UPDATE SET NULL, CONSTRAINT fk2 FOREIGN KEY (c) REFERENCES p (x) MATCH SIMPLE ON DELETE NO ACTION, INDEX (b))", "CREATE TABLE u (a INT PRIMARY KEY REFERENCES p (id) ON DELETE RESTRICT, b INT)"),
    case("checks", "CREATE TABLE t (a INT CHECK (a > 0), b INT NOT NULL CONSTRAINT pos CHECK (b > (0)), c INT, CHECK (a < b), CONSTRAINT cc CHECK (c IN (1, 2, 3)))"),
    case("checks not enforced", "CREATE TABLE t (a INT CHECK (a > 0) NOT ENFORCED, b INT CHECK (b <> ')') ENFORCED NOT NULL, CONSTRAINT x CHECK (a < b) NOT ENFORCED)", servers="mysql"),
    case("generated", "CREATE TABLE t (a INT PRIMARY KEY, b INT AS (a + 1), c INT GENERATED ALWAYS AS (a * 2) STORED, d VARCHAR(20) AS (CONCAT('x', a)) VIRTUAL COMMENT 'g', e INT AS (a) STORED NOT NULL)", servers="mysql"),
    case("generated, mariadb", "CREATE TABLE t (a INT PRIMARY KEY, b INT AS (a + 1), c INT GENERATED ALWAYS AS (a * 2) STORED, d VARCHAR(20) AS (CONCAT('x', a)) PERSISTENT COMMENT 'g', e INT AS (a) VIRTUAL UNIQUE)", servers="mariadb"),
    case("invisible", "CREATE TABLE t (a INT PRIMARY KEY, b INT INVISIBLE, c INT NOT NULL DEFAULT 1 INVISIBLE)", "ALTER TABLE t ADD d INT INVISIBLE AFTER a"),
    case("invisible by alter", "CREATE TABLE t (a INT, b INT)", "ALTER TABLE t ALTER COLUMN b SET INVISIBLE", "ALTER TABLE t ALTER b SET VISIBLE", servers="mysql"),
    case("column noise of mysql", "CREATE TABLE t (a INT NOT NULL COLUMN_FORMAT DEFAULT, b INT NOT SECONDARY, c INT VISIBLE) ROW_FORMAT=DYNAMIC STATS_PERSISTENT=1 KEY_BLOCK_SIZE=0", servers="mysql"),
    case("options", "CREATE TABLE t (a INT, b VARCHAR(5)) ENGINE = InnoDB, ROW_FORMAT = COMPACT DEFAULT CHARACTER SET latin1 COLLATE latin1_swedish_ci CHECKSUM = 1 MAX_ROWS = 1000 MIN_ROWS 10 AVG_ROW_LENGTH=10 PACK_KEYS=DEFAULT DELAY_KEY_WRITE=0 INSERT_METHOD=NO COMMENT 'x' STATS_AUTO_RECALC=DEFAULT"),
    case("options of mariadb", "CREATE TABLE t (a INT) ENGINE=Aria TRANSACTIONAL=1 PAGE_CHECKSUM=1", "CREATE TABLE u (a INT) ENGINE=InnoDB PAGE_COMPRESSED=1 PAGE_COMPRESSION_LEVEL=9", servers="mariadb"),
    case("if not exists", "CREATE TABLE IF NOT EXISTS t (a INT)", "CREATE TABLE IF NOT EXISTS t (b INT, c INT)"),
    case("or replace", "CREATE TABLE t (a INT)", "CREATE OR REPLACE TABLE t (b INT, c INT)", servers="mariadb"),
    case("like", "CREATE TABLE s (id INT PRIMARY KEY, v VARCHAR(10) CHARACTER SET latin1, e ENUM('a','b'), UNIQUE (v)) COMMENT 'src'", "CREATE TABLE t LIKE s", "CREATE TABLE u (LIKE s)", "CREATE TABLE IF NOT EXISTS u LIKE s", "ALTER TABLE t ADD x INT"),
    case("partitions", "CREATE TABLE t (id INT NOT NULL, d DATE NOT NULL, PRIMARY KEY (id, d)) PARTITION BY RANGE (YEAR(d)) (PARTITION p0 VALUES LESS THAN (2020), PARTITION p1 VALUES LESS THAN MAXVALUE)", "CREATE TABLE u (id INT PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 4", "CREATE TABLE v (id INT, r INT) ENGINE=InnoDB PARTITION BY LIST (r) (PARTITION a VALUES IN (1,2) COMMENT='x', PARTITION b VALUES IN (3)) ", "CREATE TABLE w (a INT PRIMARY KEY, b INT) PARTITION BY KEY () PARTITIONS 2", "CREATE TABLE x (id INT, d DATE) PARTITION BY RANGE (YEAR(d)) SUBPARTITION BY HASH (TO_DAYS(d)) SUBPARTITIONS 2 (PARTITION p0 VALUES LESS THAN (1990), PARTITION p1 VALUES LESS THAN MAXVALUE)"),
    case("strange names", "CREATE TABLE `we ird``name` (`a b` INT, `select` INT, `c``d` VARCHAR(5), `é` INT, `1` INT, `a.b` INT, `key` INT, PRIMARY KEY (`a b`), UNIQUE KEY `primary key` (`select`))", "CREATE TABLE `t.u` (a INT)", "CREATE TABLE 1st (2nd INT, $x INT, _y INT, ünï INT)", "ALTER TABLE `we ird``name` DROP COLUMN `c``d`, CHANGE `é` `è` BIGINT", "RENAME TABLE `t.u` TO `t`"),
    case("words that are no keywords", "CREATE TABLE t (date DATE, time TIME, timestamp TIMESTAMP NULL, year YEAR, text TEXT, bit BIT, enum ENUM('x'), comment VARCHAR(5), status INT, type INT, value INT, names INT, charset INT, data INT, session INT, user INT, serial INT, json INT, period INT, vector INT, invisible INT, json2 JSON, end INT, start INT, uuid INT)"),
    case("ansi quotes", 'CREATE TABLE "t" ("a" INT, "b c" VARCHAR(5) DEFAULT \'x\', PRIMARY KEY ("a"))', 'ALTER TABLE "t" ADD COLUMN "d""e" INT AFTER "a"', sql_mode="ANSI_QUOTES"),
    case("no backslash escapes", r"CREATE TABLE t (a VARCHAR(20) DEFAULT 'x\', b VARCHAR(20) DEFAULT '\n')", sql_mode="NO_BACKSLASH_ESCAPES"),
    case("comments", "CREATE /* c1 */ TABLE # to the end\n t -- another\n (a INT /* , b INT */, /*!50000 c INT, */ d INT) /*!50100 ENGINE=InnoDB */", "/* first */ ALTER TABLE t ADD x INT /* last */", "ALTER TABLE t /*!99999 ADD nothing INT, */ ADD y INT"),
    case("version comments as mysqldump writes", "CREATE TABLE t (id INT NOT NULL /*!80016 CHECK (id > 0) */, v INT /*!80023 INVISIBLE */) /*!50100 PARTITION BY HASH (id) PARTITIONS 2 */", servers="mysql"),
    case("version comments of mariadb", "CREATE TABLE t (a INT /*M! , b INT */ /*M!100000 , c INT */ /*M!999999 , d INT */ /*!50701 , e INT */ /*!100100 , f INT */)", servers="mariadb"),
    case("mariadb comments elsewhere", "CREATE TABLE t (a INT /*M! , b INT */)", servers="mysql"),
    case("other databases", "CREATE TABLE {db}.t (a INT)", "CREATE TABLE `{db}` . `u` (a INT)", "ALTER TABLE {db}.t ADD b INT", "CREATE INDEX i ON {db}.t (b)", "RENAME TABLE {db}.t TO {db}.v", "ALTER TABLE {db}.v RENAME TO {db}.w", "DROP TABLE {db}.u"),
    case("semicolon at the end", "CREATE TABLE t (a INT);", "ALTER TABLE t ADD b INT ;"),
    case("system versioning", "CREATE TABLE t (a INT PRIMARY KEY, b INT WITHOUT SYSTEM VERSIONING) WITH SYSTEM VERSIONING", "ALTER TABLE t DROP SYSTEM VERSIONING", "ALTER TABLE t ADD SYSTEM VERSIONING", servers="mariadb"),
    case("row start and end", "CREATE TABLE t (a INT, s TIMESTAMP(6) GENERATED ALWAYS AS ROW START, e TIMESTAMP(6) GENERATED ALWAYS AS ROW END, PERIOD FOR SYSTEM_TIME (s, e)) WITH SYSTEM VERSIONING", servers="mariadb"),
    case("application periods", "CREATE TABLE t (id INT NOT NULL, f DATE NOT NULL, u DATE NOT NULL, PERIOD FOR p (f, u))", "CREATE TABLE v (id INT NOT NULL, f DATE NOT NULL, u DATE NOT NULL, PERIOD FOR p (f, u), UNIQUE (id, p WITHOUT OVERLAPS))", "ALTER TABLE t DROP PERIOD FOR p", "ALTER TABLE t ADD PERIOD FOR q (f, u)", servers="mariadb"),
    case("long unique", "CREATE TABLE t (a TEXT NOT NULL, b BLOB, UNIQUE (a), UNIQUE (b))", servers="mariadb"),
    case("mariadb if not exists", "CREATE TABLE t (a INT, KEY IF NOT EXISTS k (a), UNIQUE IF NOT EXISTS u (a))", servers="mariadb"),
]

ALTER_BASE = "CREATE TABLE t (id INT NOT NULL AUTO_INCREMENT, a INT, b VARCHAR(20) NOT NULL DEFAULT 'x', c DECIMAL(5,2) NOT NULL, d DATETIME, PRIMARY KEY (id), UNIQUE KEY ub (b), KEY kc (c, d)) DEFAULT CHARSET latin1"


def alter(name: str, *clauses: str, servers: tuple[str, ...] | str = BOTH) -> Case:
    """ALTER TABLE t with each clause in turn, on one table."""
    return case(name, ALTER_BASE, *(f"ALTER TABLE t {clause}" for clause in clauses), servers=servers)


ALTER = [
    alter("add", "ADD e INT", "ADD COLUMN f VARCHAR(10)", "ADD g INT FIRST", "ADD h INT NOT NULL DEFAULT 7 AFTER a", "ADD COLUMN (i INT, j TEXT)", "ADD k INT AFTER g, ADD l INT AFTER k, ADD m INT FIRST", "ADD n VARCHAR(5) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"),
    alter("add with keys", "ADD e INT UNIQUE", "ADD f INT NOT NULL, ADD UNIQUE KEY uf (f), ADD INDEX (f)", "ADD (g INT, h INT, KEY gh (g, h))", "ADD CONSTRAINT UNIQUE (g)", "ADD CONSTRAINT cu UNIQUE KEY (h)", "ADD CHECK (g > 0)", "ADD CONSTRAINT ck CHECK (h > 0)"),
    alter("drop", "DROP a", "DROP COLUMN d", "DROP INDEX kc, DROP COLUMN c"),
    alter("drop takes the column from indexes", "DROP COLUMN d", "ADD e INT FIRST, DROP a"),
    alter("drop the primary key", "MODIFY id INT NOT NULL, DROP PRIMARY KEY", "ADD PRIMARY KEY (b)", "DROP PRIMARY KEY, ADD PRIMARY KEY (id)", "DROP INDEX ub", "DROP INDEX `PRIMARY`"),
    alter("key falls to a unique index", "ADD UNIQUE ac (c), MODIFY id INT, DROP PRIMARY KEY", "DROP KEY ub", "MODIFY c DECIMAL(5,2) NULL", "ADD UNIQUE (id)", "MODIFY id INT NOT NULL"),
    alter("modify", "MODIFY a BIGINT", "MODIFY COLUMN a INT UNSIGNED NOT NULL", "MODIFY b VARCHAR(100)", "MODIFY c DECIMAL(10,4) NOT NULL DEFAULT 1 FIRST", "MODIFY d DATETIME(6) AFTER id", "MODIFY a INT COMMENT 'x'", "MODIFY id BIGINT UNSIGNED AUTO_INCREMENT"),
    alter("change", "CHANGE a aa INT", "CHANGE COLUMN aa a BIGINT NOT NULL FIRST", "CHANGE b bb CHAR(30) AFTER c", "CHANGE id ident INT NOT NULL AUTO_INCREMENT", "CHANGE c c DECIMAL(6,2), CHANGE d dd DATE", "CHANGE bb `b b` VARCHAR(5) NOT NULL"),
    alter("swap names by change", "CHANGE a d INT, CHANGE d a DATETIME"),
    alter("rename column", "RENAME COLUMN a TO z", "RENAME COLUMN id TO pk", "RENAME COLUMN b TO c, RENAME COLUMN c TO b"),
    alter("positions among several", "ADD x INT AFTER a, MODIFY a INT AFTER d, ADD y INT AFTER x", "MODIFY x INT FIRST, MODIFY id INT NOT NULL AUTO_INCREMENT AFTER x", "CHANGE a a2 INT FIRST, ADD z INT AFTER a2", "DROP x, ADD x BIGINT", "DROP y, ADD y INT FIRST"),
    alter("several at once", "ADD e INT, DROP a, MODIFY b VARCHAR(30), RENAME COLUMN c TO cc, ADD INDEX (e), COMMENT='new', ENGINE=InnoDB", "ADD f INT, ALGORITHM=INPLACE, LOCK=NONE", "ALGORITHM=COPY, ADD g INT AFTER f", "ALGORITHM = DEFAULT, LOCK = DEFAULT, DROP g"),
    alter("instant", "ADD e INT, ALGORITHM=INSTANT", "ADD f INT FIRST, ALGORITHM=INSTANT", "RENAME COLUMN f TO g, ALGORITHM=INSTANT"),
    alter("set and drop default", "ALTER a SET DEFAULT 5", "ALTER COLUMN b SET DEFAULT 'y'", "ALTER b DROP DEFAULT", "ALTER a DROP DEFAULT", "ALTER c SET DEFAULT 1", "ALTER d SET DEFAULT '2024-01-01 00:00:00'", "ALTER a SET DEFAULT NULL", "ALTER a SET DEFAULT (1 + 2)", "ALTER a SET DEFAULT 3, ALTER c DROP DEFAULT"),
    alter("rename", "RENAME TO u", servers=BOTH),
    case("rename forms", "CREATE TABLE t (a INT)", "ALTER TABLE t RENAME u", "ALTER TABLE u RENAME AS v", "ALTER TABLE v RENAME = w", "ALTER TABLE w RENAME TO t, ADD b INT", "ALTER TABLE t ADD c INT, RENAME u, ADD d INT"),
    alter("indexes", "ADD INDEX ia (a)", "RENAME INDEX ia TO ib", "RENAME KEY ib TO ic, ADD UNIQUE ia (a, id)", "DROP KEY ic", "ADD UNIQUE INDEX (c)", "ADD FULLTEXT INDEX ft (b)", "DROP INDEX ft, DROP INDEX kc", "ADD KEY (a), ADD KEY (a, b)", "DISABLE KEYS", "ENABLE KEYS"),
    alter("index visibility of mysql", "ALTER INDEX kc INVISIBLE", "ALTER INDEX kc VISIBLE", "ADD CONSTRAINT chk CHECK (a > 0)", "ALTER CHECK chk NOT ENFORCED", "ALTER CONSTRAINT chk ENFORCED", "DROP CHECK chk", "DROP CONSTRAINT ub", servers="mysql"),
    alter("index of mariadb", "ALTER INDEX kc IGNORED", "ALTER INDEX kc NOT IGNORED", "ADD CONSTRAINT chk CHECK (a > 0)", "DROP CONSTRAINT chk", "DROP CONSTRAINT ub", "DROP CONSTRAINT IF EXISTS nope", servers="mariadb"),
    alter("mariadb if exists", "ADD COLUMN IF NOT EXISTS a INT", "ADD COLUMN IF NOT EXISTS e INT", "DROP COLUMN IF EXISTS zz", "DROP COLUMN IF EXISTS e", "MODIFY COLUMN IF EXISTS zz INT", "MODIFY COLUMN IF EXISTS a BIGINT", "CHANGE COLUMN IF EXISTS zz yy INT", "CHANGE IF EXISTS a aa INT", "ADD INDEX IF NOT EXISTS kc (aa)", "ADD UNIQUE IF NOT EXISTS un (aa)", "DROP INDEX IF EXISTS nope", "ADD IF NOT EXISTS (f INT, g INT)", "DROP COLUMN IF EXISTS f, DROP COLUMN IF EXISTS f2", "RENAME COLUMN IF EXISTS g TO h", "RENAME INDEX IF EXISTS nope TO nope2", "ALTER COLUMN IF EXISTS h SET DEFAULT 4", servers="mariadb"),
    alter("charset conversion", "CONVERT TO CHARACTER SET utf8mb4", "CONVERT TO CHARSET latin1 COLLATE latin1_bin", "DEFAULT CHARACTER SET utf8mb4", "ADD e VARCHAR(5), ADD f TEXT", "CHARSET = latin1, ADD g TEXT", "COLLATE latin1_german1_ci", "ADD h CHAR(3)", "CONVERT TO CHARACTER SET utf8mb3"),
    case("conversion widens texts", "CREATE TABLE t (a TINYTEXT, b TEXT, c MEDIUMTEXT, d LONGTEXT, e VARCHAR(100), f ENUM('x'), g TEXT CHARACTER SET utf8mb4, h VARBINARY(5), i CHAR(5), j TEXT CHARACTER SET utf8mb3) CHARSET latin1", "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4", "ALTER TABLE t CONVERT TO CHARACTER SET latin1", "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb3, ADD k VARCHAR(10) CHARACTER SET latin1, ADD l TEXT"),
    case("conversion to the database's default", "CREATE TABLE t (a VARCHAR(10)) CHARSET latin1", "ALTER TABLE t CONVERT TO CHARACTER SET DEFAULT", "ALTER TABLE t DEFAULT CHARSET latin1", "ALTER TABLE t CHARACTER SET DEFAULT", "ALTER TABLE t ADD b VARCHAR(5)"),
    alter("convert and change", "CONVERT TO CHARACTER SET utf8mb4, MODIFY b VARCHAR(10) CHARACTER SET latin1, ADD e TEXT", "MODIFY b VARCHAR(10), DEFAULT CHARSET latin1"),
    alter("no effect on shape", "ENGINE=InnoDB", "FORCE", "COMMENT 'c'", "AUTO_INCREMENT=100", "ROW_FORMAT=DYNAMIC", "STATS_PERSISTENT=0", "COMMENT ''", "AUTO_INCREMENT 5, MAX_ROWS 7", "STATS_SAMPLE_PAGES=DEFAULT"),
    case("order by", "CREATE TABLE t (a INT, b INT) ENGINE=MyISAM", "ALTER TABLE t ORDER BY b, a DESC", "ALTER TABLE t ADD c INT, ORDER BY c"),
    case("partitions by alter", "CREATE TABLE t (id INT PRIMARY KEY, v INT)", "ALTER TABLE t PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20))", "ALTER TABLE t ADD PARTITION (PARTITION p2 VALUES LESS THAN (30))", "ALTER TABLE t REORGANIZE PARTITION p0 INTO (PARTITION n0 VALUES LESS THAN (5), PARTITION n1 VALUES LESS THAN (10))", "ALTER TABLE t TRUNCATE PARTITION p1", "ALTER TABLE t DROP PARTITION p2", "ALTER TABLE t ANALYZE PARTITION ALL", "ALTER TABLE t ADD w INT", "ALTER TABLE t REMOVE PARTITIONING", "ALTER TABLE t ADD x INT PARTITION BY HASH (id) PARTITIONS 3", "ALTER TABLE t COALESCE PARTITION 1", "ALTER TABLE t REBUILD PARTITION p0", "ALTER TABLE t DROP x REMOVE PARTITIONING"),
    case("exchange partition", "CREATE TABLE t (id INT PRIMARY KEY) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN MAXVALUE)", "CREATE TABLE u (id INT PRIMARY KEY)", "ALTER TABLE t EXCHANGE PARTITION p0 WITH TABLE u WITHOUT VALIDATION"),
    case("convert partition", "CREATE TABLE t (id INT PRIMARY KEY, v INT) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN MAXVALUE)", "ALTER TABLE t CONVERT PARTITION p0 TO TABLE s", "ALTER TABLE t ADD w INT", servers="mariadb"),
    alter("wait", "WAIT 5 ADD e INT", "NOWAIT ADD f INT", servers="mariadb"),
    case("alter with modifiers", ALTER_BASE, "ALTER IGNORE TABLE t ADD e INT", "ALTER ONLINE TABLE t ADD f INT", "ALTER TABLE IF EXISTS t ADD g INT", servers="mariadb"),
    case("case does not matter", "CREATE TABLE t (Aa INT NOT NULL, Bb INT, PRIMARY KEY (aA))", "ALTER TABLE t ADD cC INT AFTER AA", "ALTER TABLE t MODIFY BB BIGINT", "ALTER TABLE t DROP CC", "ALTER TABLE t CHANGE bb bB INT", "ALTER TABLE t ADD UNIQUE (BB)", "ALTER TABLE t RENAME COLUMN AA TO aA"),
    case("foreign keys by alter", "CREATE TABLE p (id INT PRIMARY KEY)", "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)", "ALTER TABLE t ADD CONSTRAINT fa FOREIGN KEY (a) REFERENCES p (id) ON DELETE CASCADE", "ALTER TABLE t ADD FOREIGN KEY fb (b) REFERENCES p (id)", "ALTER TABLE t DROP FOREIGN KEY fa", "ALTER TABLE t DROP INDEX fa"),
    case("generated by alter", "CREATE TABLE t (a INT PRIMARY KEY)", "ALTER TABLE t ADD b INT AS (a + 1) VIRTUAL", "ALTER TABLE t ADD c INT GENERATED ALWAYS AS (a * 2) STORED AFTER a", "ALTER TABLE t MODIFY c INT", "ALTER TABLE t CHANGE b bb INT AS (a + 2)", "ALTER TABLE t DROP bb"),
    case("enum grows", "CREATE TABLE t (e ENUM('a','b'), s SET('x'))", "ALTER TABLE t MODIFY e ENUM('a','b','c') NOT NULL DEFAULT 'c', MODIFY s SET('x','y')"),
    case("json by alter", "CREATE TABLE t (id INT PRIMARY KEY)", "ALTER TABLE t ADD j JSON, ADD k JSON NOT NULL FIRST", "ALTER TABLE t CHANGE j jj JSON"),
    case("compressed by alter", "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(100))", "ALTER TABLE t MODIFY v VARCHAR(100) COMPRESSED", "ALTER TABLE t MODIFY v VARCHAR(200)", servers="mariadb"),
    case("primary key columns become not null", "CREATE TABLE t (a INT DEFAULT NULL, b INT DEFAULT 3)", "ALTER TABLE t ADD PRIMARY KEY (a, b)", "ALTER TABLE t DROP PRIMARY KEY"),
    case("add primary key column", "CREATE TABLE t (a INT)", "ALTER TABLE t ADD id INT NOT NULL AUTO_INCREMENT PRIMARY KEY FIRST", "ALTER TABLE t DROP id, ADD id2 BIGINT AUTO_INCREMENT PRIMARY KEY"),
    case("drop and add of the same index", "CREATE TABLE t (a INT NOT NULL, b INT NOT NULL, UNIQUE u (a))", "ALTER TABLE t DROP INDEX u, ADD UNIQUE u (b)", "ALTER TABLE t ADD UNIQUE v (a), DROP INDEX u"),
    case("set statement", "CREATE TABLE t (a INT)", "SET STATEMENT max_statement_time=60 FOR ALTER TABLE t ADD b INT", servers="mariadb"),
]

OTHERS = [
    case("create and drop index", "CREATE TABLE t (a INT NOT NULL, b VARCHAR(50) NOT NULL)", "CREATE INDEX ib ON t (b)", "CREATE UNIQUE INDEX ua USING BTREE ON t (a) COMMENT 'x'", "CREATE UNIQUE INDEX ub ON t (b(10), a DESC)", "DROP INDEX ua ON t", "DROP INDEX ib ON t ALGORITHM=INPLACE LOCK=NONE", "CREATE FULLTEXT INDEX ft ON t (b)", "CREATE INDEX ic ON t (a) ALGORITHM=INPLACE LOCK=DEFAULT"),
    case("index if exists", "CREATE TABLE t (a INT NOT NULL)", "CREATE INDEX IF NOT EXISTS i ON t (a)", "CREATE OR REPLACE UNIQUE INDEX i ON t (a)", "DROP INDEX IF EXISTS j ON t", "DROP INDEX IF EXISTS i ON t", "CREATE UNIQUE INDEX i ON t (a)", servers="mariadb"),
    case("drop tables", "CREATE TABLE a (i INT)", "CREATE TABLE b (i INT)", "CREATE TABLE c (i INT)", "DROP TABLE a, b", "DROP TABLE IF EXISTS c, nope CASCADE", "CREATE TABLE a (j INT)", "DROP TABLES a RESTRICT"),
    case("rename tables", "CREATE TABLE a (x INT)", "CREATE TABLE b (y INT)", "RENAME TABLE a TO c", "RENAME TABLE c TO tmp, b TO c, tmp TO b", "RENAME TABLES b TO d", "ALTER TABLE d ADD z INT"),
    case("rename if exists", "CREATE TABLE a (x INT)", "RENAME TABLE IF EXISTS a TO b", servers="mariadb"),
    case("truncate", "CREATE TABLE t (a INT)", "TRUNCATE TABLE t", "TRUNCATE t"),
    case("views are not tables", "CREATE TABLE t (a INT)", "CREATE VIEW v AS SELECT a FROM t", "CREATE OR REPLACE ALGORITHM=MERGE DEFINER=CURRENT_USER SQL SECURITY INVOKER VIEW v AS SELECT a + 1 AS b FROM t", "ALTER VIEW v AS SELECT 1 AS c", "DROP VIEW IF EXISTS v"),
    case("routines", "CREATE TABLE t (a INT)", "CREATE PROCEDURE p() BEGIN ALTER TABLE t ADD b INT; DROP TABLE t; END", "CREATE FUNCTION f() RETURNS INT DETERMINISTIC RETURN 1", "CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW SET NEW.a = 1", "CREATE EVENT e ON SCHEDULE EVERY 1 DAY DISABLE DO DROP TABLE t", "ALTER PROCEDURE p COMMENT 'x'", "DROP TRIGGER tr", "DROP PROCEDURE p", "DROP FUNCTION f", "DROP EVENT e"),
    case("dml", "CREATE TABLE t (a INT)", "INSERT INTO t VALUES (1), (2)", "UPDATE t SET a = 3", "REPLACE INTO t VALUES (1)", "DELETE FROM t"),
    case("maintenance", "CREATE TABLE t (a INT)", "ANALYZE TABLE t", "OPTIMIZE TABLE t", "CHECK TABLE t", "CHECKSUM TABLE t", "FLUSH TABLES", "FLUSH TABLES t", "LOCK TABLES t READ", "UNLOCK TABLES"),
    case("temporary tables", "CREATE TABLE t (a INT)", "CREATE TEMPORARY TABLE x (b INT)", "DROP TEMPORARY TABLE x", "DROP TEMPORARY TABLE IF EXISTS x"),
    case("databases", "ALTER DATABASE {db} CHARACTER SET latin1", "CREATE TABLE t (a VARCHAR(5))", "ALTER DATABASE {db} DEFAULT COLLATE utf8mb4_bin", "CREATE TABLE u (a VARCHAR(5))", "ALTER DATABASE CHARACTER SET = ascii", "CREATE TABLE v (a VARCHAR(5))", "ALTER TABLE t ADD b VARCHAR(5)", "ALTER SCHEMA {db} COLLATE = latin1_bin", "CREATE TABLE w (a TEXT)"),
    case("drop and create the database", "CREATE TABLE t (a INT)", "DROP DATABASE {db}", "CREATE DATABASE {db} CHARACTER SET latin1 COLLATE latin1_bin", "CREATE TABLE {db}.t (b VARCHAR(5))", "CREATE DATABASE IF NOT EXISTS {db} CHARSET utf8mb4", "CREATE TABLE {db}.u (b VARCHAR(5))", "DROP SCHEMA IF EXISTS {db}", "CREATE SCHEMA {db} COLLATE utf8mb4_bin", "CREATE TABLE {db}.t (b VARCHAR(5))"),
    case("replace the database", "CREATE TABLE t (a INT)", "CREATE OR REPLACE DATABASE {db} CHARSET latin1", "CREATE TABLE {db}.t (b VARCHAR(5))", servers="mariadb"),
    case("sequences", "CREATE SEQUENCE s START WITH 5 INCREMENT BY 2", "ALTER SEQUENCE s RESTART 7", "CREATE TABLE t (a BIGINT DEFAULT NEXTVAL(s), b BIGINT DEFAULT (NEXT VALUE FOR s))", "DROP SEQUENCE IF EXISTS s2", servers="mariadb"),
    case("ghost", "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(10))", "CREATE TABLE `_t_gho` LIKE t", "ALTER TABLE `_t_gho` ADD COLUMN n INT NOT NULL DEFAULT 0, MODIFY v TEXT", "CREATE TABLE `_t_del` (id INT PRIMARY KEY) ENGINE=InnoDB COMMENT='ghost-cut-over-sentry'", "DROP TABLE IF EXISTS `_t_del`", "RENAME TABLE t TO `_t_del`, `_t_gho` TO t", "DROP TABLE `_t_del`"),
    case("pt-osc", "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(10))", "CREATE TABLE `{db}`.`_t_new` (`id` int NOT NULL, `v` varchar(10) DEFAULT NULL, PRIMARY KEY (`id`)) ENGINE=InnoDB", "ALTER TABLE `{db}`.`_t_new` ADD COLUMN n INT", "CREATE TRIGGER `pt_osc_ins` AFTER INSERT ON `{db}`.`t` FOR EACH ROW REPLACE INTO `{db}`.`_t_new` (`id`, `v`) VALUES (NEW.`id`, NEW.`v`)", "RENAME TABLE `{db}`.`t` TO `{db}`.`_t_old`, `{db}`.`_t_new` TO `{db}`.`t`", "DROP TABLE IF EXISTS `{db}`.`_t_old`"),
]

CASES = TYPES + DEFAULTS + CREATE + ALTER + OTHERS
