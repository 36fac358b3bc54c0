"""Run the rules of `code_rules` over the repository, less what `code_exceptions.txt` lists.

A line of that list is ``rule place: reason``, where the place is a file, or a file with ``::`` and a function. A line that excuses nothing is a finding too,
so the list is never longer than what there is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from audit.code_rules import RULES, Rule
from audit.syntax import Source

LIST = Path(__file__).with_name("code_exceptions.txt")
_LINE = re.compile(r"(?P<rule>[\w-]+) (?P<place>\S+): (?P<reason>\S.{9,})")


def sources(root: Path, folders: Iterable[str]) -> Iterator[Source]:
    """Yield the Python files below some folders, tests left out."""
    for folder in folders:
        for path in sorted((root / folder).rglob("*.py")):
            yield Source(str(path.relative_to(root)), path.read_text(encoding="utf-8"))


def listed(text: str) -> Mapping[tuple[str, str], int]:
    """Return the number of the line for each (rule, place) of the list. Raise ValueError for a line of another form."""
    names = {rule.name for rule in RULES}
    found = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None or match["rule"] not in names:
            raise ValueError(f"{LIST.name}:{number}: write `rule file::function: reason`, with one of the rules {', '.join(sorted(names))}")
        found[match["rule"], match["place"]] = number
    return found


def broken(files: Iterable[Source], exceptions: Mapping[tuple[str, str], int], rules: Iterable[Rule] = RULES) -> Iterator[str]:
    """Yield a line for each finding that the list does not excuse, and for each line of the list that excuses nothing."""
    used = set()
    for source in files:
        for rule in rules:
            if not source.path.startswith(rule.folders):
                continue
            for node in rule.find(source):
                place = source.place(node)
                known = [key for key in ((rule.name, place), (rule.name, source.path)) if key in exceptions]
                used.update(known[:1])
                if not known:
                    yield f"{source.path}:{getattr(node, 'lineno', 0)}: {rule.name}: {rule.finds}; {rule.why}. If it is right here: {rule.name} {place}: reason"
    for key in sorted(set(exceptions) - used, key=lambda key: exceptions[key]):
        yield f"{LIST.name}:{exceptions[key]}: {' '.join(key)} excuses nothing; take the line out"
