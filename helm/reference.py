# noqa: INP001  a program beside the chart, whose folder is no package
"""Generates README.md's table of values and values.schema.json from the comments of values.yaml.

`python3 helm/reference.py` writes them; with `--check` it compares them and exits with 1 if they
differ. The top of values.yaml describes the form of the comments.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent
SCHEMA, README = FOLDER / "values.schema.json", FOLDER / "README.md"
BEGIN, END = "<!-- values -->\n", "<!-- end of values -->\n"
_KEY = re.compile(r"^( *)([\w.-]+):(?: |$)")
_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}


@dataclass(slots=True)
class Value:
    """A key of values.yaml."""

    path: tuple[str, ...]
    default: Any
    doc: str
    added: dict[str, Any] = field(default_factory=dict)
    passthrough: bool = False
    section: str = ""

    @property
    def is_group(self) -> bool:
        """True if the chart defines keys below this one."""
        return isinstance(self.default, dict) and bool(self.default) and not self.passthrough and "additionalProperties" not in self.added


def values(text: str) -> list[Value]:
    """Return every key that the chart defines, in the order of the file."""
    defaults = yaml.safe_load(text)
    found: list[Value] = []
    comment: list[str] = []
    path: list[str] = []
    section = ""
    leaf: tuple[str, ...] | None = None
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("#"):
            comment.append(stripped.removeprefix("#").strip())
            continue
        match = _KEY.match(line)
        if match is None:
            comment = comment if stripped else []
            continue
        path = [*path[: len(match[1]) // 2], match[2]]
        if leaf is not None and tuple(path[: len(leaf)]) == leaf:
            continue
        if comment and comment[0].startswith("-- "):
            section = comment.pop(0).removeprefix("-- ")
        default: Any = defaults
        for part in path:
            default = default[part]
        added = next((json.loads(part.removeprefix("@schema ")) for part in comment if part.startswith("@schema ")), {})
        doc = " ".join(part for part in comment if not part.startswith("@"))
        value = Value(tuple(path), default, doc, added, "@passthrough" in comment, section)
        leaf = None if value.is_group else tuple(path)
        found.append(value)
        comment = []
    return found


def schema(all_values: list[Value]) -> dict[str, Any]:
    """Return a JSON schema that rejects unknown keys, at every level that the chart defines."""
    root: dict[str, Any] = {"type": "object", "additionalProperties": False, "properties": {}}
    for value in all_values:
        at = root
        for part in value.path[:-1]:
            at = at["properties"][part]
        own: dict[str, Any] = {"description": value.doc} if value.doc else {}
        if value.is_group:
            own |= {"type": "object", "additionalProperties": False, "properties": {}}
        else:
            own |= ({} if "enum" in value.added else {"type": _TYPES[type(value.default)]}) | value.added
        at["properties"][value.path[-1]] = own
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": "Values of the chart dblog", **root}


def table(all_values: list[Value]) -> str:
    """Return the reference in Markdown, with a table for each section."""
    lines: list[str] = []
    section = None
    for value in all_values:
        if value.is_group and not value.doc:
            continue
        if value.section != section:
            section = value.section
            lines += ["", f"### {section}", "", "| value | default | meaning |", "|---|---|---|"]
        default = "" if value.is_group else f"`{json.dumps(value.default)}`"
        choices = f" One of {', '.join(f'`{choice}`' for choice in value.added['enum'])}." if "enum" in value.added else ""
        lines.append(f"| `{'.'.join(value.path)}` | {default} | {value.doc}{choices} |".replace("{name}", "NAME"))
    return "\n".join([*lines[1:], ""])


def made(text: str, readme: str) -> dict[Path, str]:
    """Return the wanted content of the generated files, by path."""
    found = values(text)
    before, _, rest = readme.partition(BEGIN)
    behind = rest.partition(END)[2]
    return {SCHEMA: json.dumps(schema(found), indent=1) + "\n", README: f"{before}{BEGIN}\n{table(found)}\n{END}{behind}"}


def main(arguments: list[str]) -> int:
    """Write the files, or compare them with `--check`. Return the exit status."""
    wanted = made((FOLDER / "values.yaml").read_text(encoding="utf-8"), README.read_text(encoding="utf-8"))
    differing = [path for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if "--check" in arguments:
        for path in differing:
            sys.stderr.write(f"{path.name} is not what values.yaml says; run make chart\n")
        return 1 if differing else 0
    for path in differing:
        path.write_text(wanted[path], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
