"""Downloads are made once and whole, and a machine that cannot have a server gets the names of what to install."""

from pathlib import Path

import pytest
from stack import MariaDb, MySql, Postgres, Unavailable
from stack.cache import cached
from stack.commands import program
from stack.database import Database
from stack.debian import mirror
from stack.java import java, maven


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DBLOG_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No program of a Debian system, no server in the folders that are not on a user's PATH either."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("stack.mariadb.SYSTEM_FOLDERS", str(tmp_path))
    monkeypatch.setattr("stack.mysql.SYSTEM_FOLDERS", str(tmp_path))
    monkeypatch.setattr("stack.postgres.INSTALLED", str(tmp_path))


def test_an_entry_is_filled_once():
    fills = []

    def fill(folder: Path) -> None:
        fills.append(folder)
        (folder / "jar").touch()

    first, second = cached("a", fill), cached("a", fill)

    assert first == second
    assert (second / "jar").exists()
    assert len(fills) == 1


def test_an_entry_whose_download_failed_is_tried_again_from_nothing():
    def broken(folder: Path) -> None:
        (folder / "half").touch()
        raise ConnectionError

    with pytest.raises(ConnectionError):
        cached("a", broken)
    entry = cached("a", lambda folder: (folder / "whole").touch())

    assert [path.name for path in entry.iterdir()] == ["whole"]


@pytest.mark.parametrize(("kind", "name"), [(MariaDb, "mariadbd"), (MySql, "mysqld"), (Postgres, "postgres")])
def test_a_machine_without_debian_packages_gets_the_names_of_what_to_install(
    kind: type[Database], name: str, bare_machine: None, tmp_path: Path
):
    with pytest.raises(Unavailable, match=rf"Install (MariaDB|MySQL|PostgreSQL) server .* so that {name} is on the PATH"):
        kind(tmp_path / "server").start()


def test_a_machine_without_java_maven_and_debian_packages_gets_the_names_of_what_to_install(
    bare_machine: None, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("JAVA_HOME", raising=False)

    with pytest.raises(Unavailable, match=r"Java is not on this machine: .*no apt.* Install a JDK 17 or later"):
        java()
    with pytest.raises(Unavailable, match=r"Maven is not on this machine: .*no apt.* Install Maven 3.8 or later"):
        maven([])
    with pytest.raises(Unavailable, match=r"promtool is not on this machine. Install it: Prometheus"):
        program("promtool", install="Prometheus")


def test_the_mirror_can_be_chosen(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DBLOG_DEBIAN_MIRROR", "http://mirror.example/debian")

    assert mirror() == "http://mirror.example/debian"
