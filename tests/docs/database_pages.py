"""The pages on preparing a database, in parts: sections, blocks of commands, and statements one by one."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from docs.pages import ROOT, tables

FOLDER = ROOT / "connect-worker" / "docs"
SELF_HOSTED = "Self-hosted"
ERRORS = "What can go wrong"
PASSWORD = "'...'"
"""What stands on the pages for a password."""

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class DatabasePage:
    """One page, by its file's name."""

    name: str

    @property
    def text(self) -> str:
        return (FOLDER / self.name).read_text(encoding="utf-8")

    def section(self, heading: str) -> str:
        """The text of a section of the second level, with those below it."""
        return dict(_parted(self.text, "## "))[heading]

    def headings(self) -> list[str]:
        """Those of the second level."""
        return [heading for heading, _ in _parted(self.text, "## ")]

    def steps(self) -> list[tuple[str, str]]:
        """The sections for a server of one's own, in order: (heading, text)."""
        return _parted(self.section(SELF_HOSTED), "### ")

    def statements(self, step: str) -> list[str]:
        """The SQL of a step, statement by statement, without the semicolon."""
        return [statement for block in blocks(dict(self.steps())[step], "sql") for statement in _statements(block)]

    def options(self) -> dict[str, str]:
        """The server's options in the configuration file that the page shows."""
        (block,) = blocks(self.section(SELF_HOSTED), "ini")
        return {name.strip(): value.strip() for name, _, value in (line.partition("=") for line in block.splitlines() if "=" in line)}

    def connector(self) -> str:
        """The connector's configuration, in JSON, as the page shows it."""
        return blocks(dict(self.steps())["Check"], "json")[-1]

    def errors(self) -> list[str]:
        """The texts that the page explains."""
        return [span for table in tables(self.section(ERRORS)) for row in table.rows for span in re.findall(r"`([^`]+)`", row[0])]


def blocks(text: str, language: str) -> list[str]:
    """The blocks of a language."""
    return [block for found, block in _BLOCK.findall(text) if found == language]


def messages(folder: Path) -> Iterator[str]:
    """Each text of the code in a folder, with a mark where a value is put in."""
    for file in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            match node:
                case ast.Constant(value=str(text)):
                    yield text
                case ast.JoinedStr(values=parts):
                    yield "".join(part.value if isinstance(part, ast.Constant) else "\0" for part in parts)


def _parted(text: str, mark: str) -> list[tuple[str, str]]:
    parts = re.split(rf"^{mark}(.+)$", text, flags=re.MULTILINE)
    return list(zip(parts[1::2], parts[2::2], strict=True))


def _statements(block: str) -> Iterator[str]:
    yield from (statement.strip() for statement in re.split(r";[ \t]*(?:--[^\n]*)?(?:\n|$)", block) if statement.strip())
