"""Records how Debezium converts our columns of PostgreSQL and their values.

Run ``python tests/support/debezium/record_postgres.py <folders of jars>``. It needs Debezium's
PostgreSQL connector 3.6.1.Final, Kafka's connect-json, Confluent's Avro converter 7.0.16, their
dependencies, which `stack.Debezium` downloads, and a JDK. A PostgreSQL 17 server gives the texts of
the values. The tests do not run it; they read the file that it writes.
"""

import json
import re
import subprocess
import sys
import tempfile
from base64 import b64encode
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parents[1]), *(str(HERE.parents[2] / part) for part in ("connect-worker/src", "docker"))]

from stack import Postgres17  # noqa: E402
from support.copied_rows import copied  # noqa: E402
from support.postgres import connected, new_database  # noqa: E402
from support.postgres_type_cases import CASES, MODES, PREPARATION, SETTINGS  # noqa: E402
from support.servers import started  # noqa: E402


def tables(server: Postgres17, database: str) -> list[list[bytes]]:
    """Create a table for each case. Return the server's text of each of its values."""
    texts = []
    with connected(server, database=database) as connection, connection.cursor() as cursor:
        for statement in (*PREPARATION, *(f"SET {name} = '{value}'" for name, value in SETTINGS.items())):
            cursor.execute(statement)
        for number, case in enumerate(CASES):
            cursor.execute(f"CREATE TABLE t{number} ({case.ddl})")
            for value in case.values:
                cursor.execute(f"INSERT INTO t{number} VALUES ({value})")
            texts.append([field or b"" for (field,) in copied(cursor, f"SELECT c FROM t{number}")])
            assert len(texts[-1]) == len(case.values), case.ddl
    return texts


def dumped(jars: list[Path], server: Postgres17, database: str, texts: list[list[bytes]]) -> list[dict[str, list[str]]]:
    login = server.login
    keys = {"hostname": "host", "port": "port", "user": "user", "password": "password"}
    properties = [f"database.{key}={login[name]}" for key, name in keys.items()] + [f"database.dbname={database}"]
    blocks = ["\n".join(properties), *("\n".join(f"{k}={v}" for k, v in (mode or {"none": ""}).items()) for mode in MODES)]
    lines = [" ".join([f"t{number}", *(b64encode(text).decode() or "-" for text in case)]) for number, case in enumerate(texts)]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "input.txt"
        source.write_text("\n---\n".join([*blocks, "\n".join(lines)]))
        class_path = ":".join([folder, *(f"{jar}/*" for jar in jars)])
        subprocess.run(["javac", "-nowarn", "-cp", class_path, "-d", folder, HERE / "DumpPostgres.java"], check=True)
        out = subprocess.run(["java", "-cp", class_path, "DumpPostgres", source], check=False, capture_output=True, text=True, timeout=3600)
        assert out.returncode == 0, out.stderr[-3000:]
    answers: list[dict[str, list[str]]] = []
    for line in out.stdout.split("\n"):
        kind, _, text = line.partition(" ")
        if kind == "TABLE":
            answers.append({})
        elif kind in {"SCHEMA", "TEXT", "UNCHANGED", "NULL", "ERROR"}:
            answers[-1].setdefault(kind, []).append(text)
    assert len(answers) == len(MODES) * len(CASES), out.stdout[-2000:]
    return answers


def recorded(answer: dict[str, list[str]]) -> dict[str, Any]:
    """Return the field's Avro schema and values as JSON, without the surrounding record."""
    if "ERROR" in answer:
        return {"error": answer["ERROR"]}
    field = answer["SCHEMA"][0].partition('"fields":[')[2].rpartition('],"connect.name":')[0]

    def value(text: str) -> str | None:
        if text.startswith("ERROR"):
            return text
        # The number differs in each run.
        text = re.sub(r"java\.lang\.Object@[0-9a-f]+", "java.lang.Object", text)
        return None if text == "{}" else text.removeprefix('{"c":').removesuffix("}")

    return {
        "field": field,
        "values": [value(t) for t in answer.get("TEXT", [])],
        "unchanged": value(answer["UNCHANGED"][0]),
        "null": value(answer["NULL"][0]),
    }


def main() -> None:
    jars = [Path(argument) for argument in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as folder, started(Postgres17(Path(folder) / "postgres", durable=False)) as server:
        database = new_database(server)
        texts = tables(server, database)
        answers = [recorded(answer) for answer in dumped(jars, server, database, texts)]
    names = [case.ddl for case in CASES]
    assert len(set(names)) == len(names), [name for name in names if names.count(name) > 1]
    by_mode: dict[str, dict[str, Any]] = {}
    for number, mode in enumerate(MODES):
        here = dict(zip(names, answers[number * len(CASES) : (number + 1) * len(CASES)], strict=True))
        plain = by_mode.get("{}", {})
        by_mode[json.dumps(mode)] = {name: answer for name, answer in here.items() if plain.get(name) != answer}
    by_name = {name: [t.decode() for t in case] for name, case in zip(names, texts, strict=True)}
    parts = [f'"texts": {lines(by_name)}', *(f"{json.dumps(mode)}: {lines(answers)}" for mode, answers in by_mode.items())]
    (HERE / "postgres_types.json").write_text("{\n" + ",\n".join(parts) + "\n}\n")


def lines(members: dict[str, Any]) -> str:
    """Return a JSON object with a line for each member."""
    return "{\n" + ",\n".join(f" {json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}" for k, v in members.items()) + "\n}"


main()
