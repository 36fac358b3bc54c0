"""The threat model's claims and the tests that show them: each names the other."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "connect-worker/docs/threat-model.md"
CLAIM = re.compile(r"^\| (\d+) \| .+ \| (`.+`) \|$", re.MULTILINE)
CITED = re.compile(r"#.*\bnumbers? (\d+(?:(?:, | and )\d+)*)")
OF_WHOM = re.compile(r"#.*\bnumbers? (\d+(?:(?:, | and )\d+)*) of the (worker|sink|chart|code)'s safety")


def claims() -> dict[int, list[Path]]:
    """The files of tests, by the number of their claim."""
    found = {}
    for number, tests in CLAIM.findall(PAGE.read_text()):
        names = re.findall(r"`([^`]+)`", tests)
        found[int(number)] = [ROOT / name if name.startswith("tests/") else ROOT / "tests/worker" / name for name in names]
    return found


def cited(text: str, pattern: re.Pattern[str]) -> set[int]:
    return {int(number) for match in pattern.finditer(text) for number in re.findall(r"\d+", match[1])}


def test_the_claims_are_numbered_in_their_order() -> None:
    assert list(claims()) == list(range(1, len(claims()) + 1))


def test_each_test_of_a_claim_names_its_number() -> None:
    lacking = [
        (number, str(test.relative_to(ROOT)))
        for number, tests in claims().items()
        for test in tests
        if number not in cited(test.read_text(), CITED)
    ]

    assert lacking == []


def test_a_number_that_a_test_names_is_a_claims() -> None:
    files = [path for path in (ROOT / "tests").rglob("test_*.py") if path != Path(__file__)]

    assert {number for path in files for number in cited(path.read_text(), OF_WHOM)} == set(claims())
