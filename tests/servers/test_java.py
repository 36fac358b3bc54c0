"""A JDK of the machine is used if it will do; else Debian's is unpacked, and made to work where it lies."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from stack import Unavailable, java
from stack.errors import StackError
from stack.maven import check


def a_jdk(folder: Path, *, version: str, programs: tuple[str, ...] = ("java", "javac")) -> Path:
    """A folder with programs that print a version as Java does."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in programs:
        program = folder / name
        program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2026-01-20' >&2\n")
        program.chmod(0o755)
    return folder


@pytest.fixture(autouse=True)
def own_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(java, "LINK", tmp_path / "build" / "java")


def test_the_java_on_the_path_is_used_if_it_is_new_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for version, will_do in (("17.0.15", True), ("21", True), ("25-ea", True), ("11.0.2", False), ("1.8.0_402", False)):
        folder = a_jdk(tmp_path / version, version=version)
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

        assert java.installed("java") == (str(folder / "java") if will_do else None), version
        assert java.installed("javac") == (str(folder / "javac") if will_do else None), version


def test_a_runtime_without_a_compiler_runs_servers_and_compiles_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(a_jdk(tmp_path / "jre", version="17.0.15", programs=("java",))))

    assert java.installed("java") is not None
    assert java.installed("javac") is None


def test_the_unpacked_jdk_is_not_taken_for_one_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    unpacked = a_jdk(tmp_path / "cache" / "bin", version="17.0.19").parent
    java.LINK.parent.mkdir()
    java.LINK.symlink_to(unpacked)
    monkeypatch.setenv("PATH", str(java.LINK / "bin"))

    assert java.installed("java") is None
    monkeypatch.setenv("JAVA_HOME", str(unpacked))
    assert java.installed("java") is None


def test_a_java_home_that_spark_would_use_and_that_is_too_old_is_refused_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    home = a_jdk(tmp_path / "old" / "bin", version="11.0.2").parent
    monkeypatch.setenv("JAVA_HOME", str(home))

    with pytest.raises(Unavailable, match=f"JAVA_HOME={home} has Java 11, and 17 or later is needed: name another JDK, or unset JAVA_HOME"):
        java.java()

    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    with pytest.raises(Unavailable, match="has no bin/java that runs"):
        java.java()


def test_links_to_the_root_of_a_system_stay_in_the_folder_that_it_is_unpacked_in(tmp_path: Path):
    (tmp_path / "etc" / "java").mkdir(parents=True)
    (tmp_path / "etc" / "java" / "jvm.cfg").write_text("-server")
    (tmp_path / "usr" / "lib").mkdir(parents=True)
    (tmp_path / "usr" / "lib" / "jvm.cfg").symlink_to("/etc/java/jvm.cfg")
    (tmp_path / "usr" / "conf").symlink_to("/etc/java")
    (tmp_path / "usr" / "near").symlink_to("lib/jvm.cfg")

    java.keep_links_inside(tmp_path)
    elsewhere = tmp_path.rename(tmp_path.with_name("elsewhere"))

    for path in ("usr/lib/jvm.cfg", "usr/conf/jvm.cfg", "usr/near"):
        assert (elsewhere / path).read_text() == "-server", path


def test_java_reads_the_store_of_trusted_authorities_that_is_written_for_it(tmp_path: Path):
    keytool = shutil.which("keytool", path=f"{os.environ['PATH']}:{java.java().rpartition('/')[0]}")
    assert keytool is not None
    authorities = java.trusted_authorities()
    (tmp_path / "cacerts").write_bytes(java.key_store(authorities))

    listed = subprocess.run(
        [keytool, "-list", "-keystore", str(tmp_path / "cacerts"), "-storepass", "changeit"], capture_output=True, text=True, check=True
    )

    assert f"Your keystore contains {len(authorities)} entr" in listed.stdout
    assert listed.stdout.count("trustedCertEntry") == len(authorities) > 0


def test_a_jar_that_was_not_downloaded_whole_is_named_with_the_remedy(tmp_path: Path):
    (tmp_path / "kafka-clients-4.3.0.jar").write_bytes(b"PK\x03\x04 and then the connection broke")

    with pytest.raises(
        StackError, match=r"kafka-clients-4.3.0.jar was not downloaded whole .* find ~/.m2/repository -name kafka-clients-4.3.0.jar -delete"
    ):
        check(tmp_path)
