"""Reads a file of JSON lines while a program still writes it."""

import json
from pathlib import Path
from typing import Any


def json_lines(file: Path) -> list[dict[str, Any]]:
    """Return the objects of the complete lines of `file`; an empty list before it exists.

    The last line counts once its line feed is written.
    """
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].split("\n") if line]
