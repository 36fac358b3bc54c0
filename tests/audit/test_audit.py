"""The audits themselves: what they take for a finding."""

import subprocess
import sys

import pytest
from audit import audit
from audit.audit import code, is_allowed, judged, licences, secrets, shipped_packages


def test_the_program_begins_as_make_starts_it():
    done = subprocess.run([sys.executable, audit.__file__], capture_output=True, text=True, check=False)

    assert "Traceback" not in done.stderr


@pytest.mark.long  # the lint's ruff has most of these rules
def test_nothing_that_is_shipped_is_unsafe_by_bandits_rules():
    assert list(code()) == []


# Short form of the next one. The tests' files are searched by `make audit-secrets`.
def test_no_file_that_was_changed_of_late_has_what_looks_like_a_secret():
    assert list(secrets(without="tests", commits=25)) == []


@pytest.mark.long
def test_no_file_beside_the_tests_has_what_looks_like_a_secret():
    assert list(secrets(without="tests")) == []


def test_what_looks_like_a_secret_is_found_and_not_shown(tmp_path, monkeypatch):
    for command in (["init", "-q"], ["add", "."]):
        (tmp_path / "made.py").write_text('token = "AKIA' + "Q7R2" * 4 + '"\n')
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    monkeypatch.setattr(audit, "ROOT", tmp_path)

    found = list(secrets())

    assert [line.partition(": ")[0] for line in found] == ["made.py:1"]
    assert "AKIA" not in found[0]


def test_secrets_are_looked_for_in_what_the_last_commits_changed_and_what_is_not_committed(tmp_path, monkeypatch):
    monkeypatch.setattr(audit, "ROOT", tmp_path)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    author = ["-c", "user.name=a", "-c", "user.email=a@b.example"]
    for name in ("old.py", "new.py", "now.py"):
        (tmp_path / name).write_text(f'token = "AKIA{"Q7R2" * 4}"  # {name}\n')
        subprocess.run(["git", "add", name], cwd=tmp_path, check=True)
        if name != "now.py":
            subprocess.run(["git", *author, "commit", "-qm", name], cwd=tmp_path, check=True)

    assert {line.partition(":")[0] for line in secrets(commits=1)} == {"new.py", "now.py"}
    assert {line.partition(":")[0] for line in secrets(commits=2)} == {"old.py", "new.py", "now.py"}
    subprocess.run(["git", *author, "commit", "-qm", "now.py"], cwd=tmp_path, check=True)
    assert list(secrets(commits=0)) == []


def test_every_package_that_is_shipped_has_a_licence_that_asks_for_no_more_than_its_name():
    assert {"dblog", "dblog-sink", "starlette", "pyjwt", "cryptography"} <= set(shipped_packages())
    assert "pytest" not in shipped_packages()
    assert list(licences()) == []


def test_a_licence_that_is_agreed_on_for_one_package_is_none_for_others(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(audit, "shipped_packages", lambda: ["psycopg2-binary", "other"])
    monkeypatch.setattr(audit, "licence_of", lambda name: audit.AGREED["psycopg2-binary"])

    assert list(licences()) == ["other has the licence GNU Library or Lesser General Public License (LGPL)"]


@pytest.mark.parametrize(
    ("licence", "allowed"),
    [
        ("MIT", True), ("Apache-2.0 OR BSD-3-Clause", True), ("GPL-3.0 OR MIT", True), ("Apache-2.0 AND BSD-2-Clause", True), ("MIT License", True),
        ("GPL-3.0", False), ("MIT AND GPL-3.0", False), ("AGPL-3.0-only", False), ("", False), ("Proprietary", False), ("LGPL-3.0-or-later", False),
    ],
)  # fmt: skip
def test_a_licence_is_allowed_by_one_of_its_choices_with_all_of_its_parts(licence, allowed):
    assert is_allowed(licence) is allowed


def test_a_package_that_could_not_be_audited_is_a_finding():
    report = [
        {"name": "good", "version": "1", "vulns": []},
        {"name": "bad", "version": "2", "vulns": [{"id": "CVE-1"}]},
        {"name": "unknown", "skip_reason": "Dependency not found on PyPI and could not be audited"},
    ]

    assert list(judged(report)) == ["bad 2: CVE-1", "unknown: NOT AUDITED: Dependency not found on PyPI and could not be audited"]
    assert list(judged([report[0]])) == []
    assert list(judged([])) == ["NOT AUDITED: no package at all"]
