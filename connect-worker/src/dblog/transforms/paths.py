"""Splits a path of field names (KIP-821): V1 takes the text as one name, V2 splits it at dots.

In V2 a name in backticks may contain dots, and a backslash before a backtick that a dot follows
makes it part of the name (org.apache.kafka.connect.transforms.field.SingleFieldPath).
"""

from __future__ import annotations

from dblog.config.options import Importance, Option

PATH_SYNTAX = Option(
    name="field.syntax.version",
    doc="V1: field is one name. V2: field is a path of names with dots between them; a name with dots stands in backticks.",
    default="V1",
    importance=Importance.HIGH,
    choices=("V1", "V2"),
)


def steps_of(path: str, version: str) -> tuple[str, ...]:
    """Return the names along a path. Raise ValueError if a backtick has no partner."""
    if version.upper() == "V1":
        return (path,)
    steps: list[str] = []
    at = 0
    while at < len(path):
        if path[at] == "`":
            name, at = _in_backticks(path, at)
            steps.append(name)
            continue
        end = path.find(".", at)
        steps.append(path[at:] if end < 0 else path[at:end])
        at = len(path) if end < 0 else end + 1
    if path.endswith("."):
        steps.append("")
    return tuple(steps)


def _in_backticks(path: str, opening: int) -> tuple[str, int]:
    """Return the name in backticks, and where the next name begins."""
    name = ""
    start = at = opening + 1
    while True:
        at = path.find("`", at)
        escaped = at > 0 and path[at - 1] == "\\"
        if at < 0 or (at >= len(path) - 1 and escaped):
            raise ValueError(
                f"Incomplete backtick pair in path: [{path}], consider adding a backslash before backtick at position {opening} to escape it"
            )
        if at >= len(path) - 1:
            return name + path[start:at], at + 1
        if path[at + 1] != ".":
            at += 1
        elif escaped:
            name += path[start : at - 1] + "`"
            at += 1
            start = at
        else:
            return name + path[start:at], at + 2
