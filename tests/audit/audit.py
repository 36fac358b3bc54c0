"""What `make audit` and `make audit-dependencies` do: unsafe code, secrets in files, licences; known vulnerabilities of the pinned packages.

python tests/audit/audit.py code | rules | secrets | licences | vulnerabilities
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
# Beside this file its own name would be found instead of its folder's.
sys.path[:] = [str(ROOT / "tests"), *(path for path in sys.path if Path(path).resolve() != Path(__file__).parent)]

from audit.code_rules import ALL  # noqa: E402 - the path comes first
from audit.scan import LIST, broken, listed, sources  # noqa: E402

BASELINE = ROOT / ".secrets.baseline"
LOCKS = ("worker", "sink")
ALLOWED = re.compile(
    r"MIT( License)?|MIT-0|BSD.*|[023]-Clause.*|Apache.*|PSF.*|Python Software Foundation.*|ISC.*|MPL.*|Mozilla Public License.*|ZPL.*|Unlicense.*|HPND",
    re.IGNORECASE,
)
"""Licences that ask for no more than to be named, and MPL, whose files are not changed here."""
AGREED = {"psycopg2-binary": "GNU Library or Lesser General Public License (LGPL)"}
"""Packages with another licence, which asks that their files are free to change and to exchange: they are installed as they are, as packages of their own."""
_SHIPPED = {"dblog": ("oidc", "tracing"), "dblog-sink": ("tracing",)}


def shipped_packages() -> list[str]:
    """What an installation of the worker and the sink brings along, by the metadata of what is installed here."""
    found: dict[str, None] = {}
    waiting = list(_SHIPPED.items())
    while waiting:
        name, extras = waiting.pop()
        if name in found:
            continue
        try:
            requires = distribution(name).requires or ()
        except PackageNotFoundError:
            continue  # of another system or Python
        found[name] = None
        for text in requires:
            wanted = re.match(r"[\w.-]+", text)
            extra = re.search(r"""extra\s*==\s*["']([\w-]+)["']""", text)
            if wanted and (extra is None or extra[1] in extras):
                waiting.append((wanted[0].lower().replace("_", "-"), ()))
    return sorted(found)


def licence_of(name: str) -> str:
    """The licence expression, or else the classifiers, or else the text, as the package states it."""
    metadata = distribution(name).metadata
    if expression := metadata.get("License-Expression"):
        return expression
    classified = [text.rpartition(" :: ")[2] for text in metadata.get_all("Classifier") or () if text.startswith("License ::")]
    return " OR ".join(classified) or (metadata.get("License") or "").strip().split("\n")[0]


def is_allowed(licence: str) -> bool:
    """Whether one of the licences to choose from, with all of its parts, is on the list."""
    choices = re.split(r"\s+OR\s+", licence.strip("() "))
    return any(all(ALLOWED.fullmatch(part.strip("() ")) for part in re.split(r"\s+AND\s+|\s+WITH\s+", choice)) for choice in choices)


def licences() -> Iterator[str]:
    """A line for each package whose licence is none of these."""
    for name in shipped_packages():
        stated = licence_of(name)
        if not is_allowed(stated) and stated != AGREED.get(name):
            yield f"{name} has the licence {stated or '(none)'}"


def code() -> Iterator[str]:
    """Bandit's findings."""
    command = [sys.executable, "-m", "bandit", "-q", "-c", str(ROOT / ".bandit.yaml"), "-r", "-ll", "-ii", "-f", "json"]
    done = subprocess.run(
        [*command, "connect-worker/src", "spark-sink/src", "docker"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    for found in json.loads(done.stdout)["results"]:
        yield f"{found['filename']}:{found['line_number']}: {found['test_id']} {found['issue_text']}"


def rules() -> Iterator[str]:
    """Yield what breaks the project's own rules about code (`code_rules.py`), and is not on the list of exceptions."""
    yield from broken(sources(ROOT, ALL), listed(LIST.read_text(encoding="utf-8")))


def secrets(*, without: str = "", commits: int | None = None) -> Iterator[str]:
    """What looks like a secret and is not among those that are known to be test data, whatever its line. ``without``: a folder that is left out.

    ``commits``: only files that the last so many commits changed, or that differ from the last one; None for every file.
    """
    known = {(file, digest) for file, digest, _ in _found(json.loads(BASELINE.read_text(encoding="utf-8")))}
    for file, digest, line in _found(_scanned(without=without, commits=commits)):
        if (file, digest) not in known:
            yield f"{file}:{line}: looks like a secret; take it out, or, if it is none: make audit-baseline"


def write_baseline() -> Iterator[str]:
    """Take what is there now for test data."""
    BASELINE.write_text(json.dumps(_scanned(), indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return iter(())


def _scanned(*, without: str = "", commits: int | None = None) -> Any:
    listed = _git("ls-files")
    if commits is not None:
        # A clone without history has every file in its only commit.
        changed = {*_git("log", f"--max-count={commits}", "--name-only", "--format="), *_git("diff", "--name-only", "HEAD")}
        listed = [name for name in listed if name in changed]
    files = [name for name in listed if not name.endswith((".zst", ".baseline", ".json")) and "/locks/" not in name]
    if without:
        files = [name for name in files if not name.startswith(f"{without}/")]
    if not files:  # without names the program would search the whole folder
        return {"results": {}}
    # Nothing is asked whether a secret opens its service.
    done = subprocess.run(
        [sys.executable, "-m", "detect_secrets", "scan", "--no-verify", *files], cwd=ROOT, capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    found.pop("generated_at", None)
    return found


def _git(*arguments: str) -> list[str]:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


def _found(scan: Mapping[str, Any]) -> list[tuple[str, str, int]]:
    return [(file, item["hashed_secret"], item["line_number"]) for file, items in scan["results"].items() for item in items]


def vulnerabilities() -> Iterator[str]:
    """pip-audit's findings for what the images install. A package that it could not look up is one: it exits clean where its data is out of reach."""
    for name in LOCKS:
        lock = ROOT / "docker" / "images" / "locks" / f"{name}.txt"
        command = [
            sys.executable,
            "-m",
            "pip_audit",
            "-f",
            "json",
            "--progress-spinner",
            "off",
            "--disable-pip",
            "--require-hashes",
            "-r",
            str(lock),
        ]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        try:
            report = json.loads(done.stdout)
        except ValueError:
            yield f"{name}: NOT AUDITED: {(done.stderr.strip().splitlines() or ['no answer'])[-1][:300]}"
            continue
        yield from (f"{name}: {line}" for line in judged(report["dependencies"]))


def judged(dependencies: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """A line for each vulnerability, and for each package that was not audited."""
    audited = 0
    for package in dependencies:
        if "skip_reason" in package:
            yield f"{package['name']}: NOT AUDITED: {package['skip_reason']}"
            continue
        audited += 1
        yield from (f"{package['name']} {package['version']}: {found['id']}" for found in package.get("vulns", ()))
    if not audited:
        yield "NOT AUDITED: no package at all"


STEPS: dict[str, Callable[[], Iterator[str]]] = {
    "code": code,
    "rules": rules,
    "secrets": secrets,
    "licences": licences,
    "vulnerabilities": vulnerabilities,
    "baseline": write_baseline,
}

if __name__ == "__main__":
    status = 0
    for step in sys.argv[1:]:
        lines = list(STEPS[step]())
        print(f"{step}: {'nothing found' if not lines else f'{len(lines)} found'}", *lines, sep="\n  ")
        status |= bool(lines)
    raise SystemExit(status)
