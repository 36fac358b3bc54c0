"""A trial on whole systems says at once, and in one answer, everything that its machine lacks; what it can make itself it does not ask for."""

import os
import re
import shutil
import subprocess
import sys
import time

import pytest
from images import engine
from needs import machine
from needs.missing import Made, Trial, announcement
from needs.targets import TARGETS, kubernetes_test
from stack.environment import ROOT

MAKE, UNSHARE = shutil.which("make"), shutil.which("unshare")
COMMON = {"a C compiler and Python's headers", "Java 17 or later", "Maven"}
BARE = {
    "alerts-test": {*COMMON, "MariaDB", "Prometheus and promtool"},
    "images-test": {*COMMON, "MariaDB", "npm", "docker or podman"},
    "kubernetes-test": {
        *(*COMMON, "MariaDB", "npm", "docker, podman or buildah", "Go 1.24 or later", "packages of Debian"),
        *("ip", "mount", "nsenter", "unshare", "openssl"),
    },
    "lake-test": {*COMMON, "a JDK"},
}
"""What a machine without any program lacks for a target."""
BUSY = {"memory", "room on the disk"}
OF_THE_MACHINE = {*BUSY, "root", "Python's venv", "Linux", "Linux on x86-64", "no other Kubernetes on this machine"}
"""What it may lack besides, by the machine that runs the tests, and by what else runs there."""


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """The only folder on the PATH, which is empty at first; and a cache folder that is not there."""
    monkeypatch.setenv("PATH", str(tmp_path / "programs"))
    monkeypatch.setenv("DBLOG_CACHE", str(tmp_path / "cache"))
    for name in ("ENGINE", "IMAGES", "ONLY", "DOCKER_HOST"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "programs").mkdir()
    return tmp_path / "programs"


def write(programs, name, script):
    (programs / name).write_text(f"#!/bin/sh\n{script}\n")
    (programs / name).chmod(0o755)


def asked(target, *before):
    """How the command that the Makefile begins with ends; `before` are words of the command line before it."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'docker'}{os.pathsep}{ROOT / 'tests'}"}
    line = [*before, sys.executable, "-m", "needs", target]
    return subprocess.run(line, env=environment, capture_output=True, text=True, timeout=120, check=False)


def lacking(answer):
    """The first words of each thing that an answer names, with what is wrong with it and its remedy."""
    found = re.findall(r"^  - (.*?)(?:, (?:which|for|what) .*?)?: (.*)\n    (.+)$", answer, re.MULTILINE)
    return {what: (wrong, remedy) for what, wrong, remedy in found}


@pytest.mark.parametrize("target", TARGETS)
def test_a_bare_machine_is_told_everything_in_one_answer_before_anything_is_made(target, programs, tmp_path):
    begun_s = time.monotonic()
    done = subprocess.run(
        [MAKE, "-C", str(ROOT), target, f"PYTHON={sys.executable}"],
        env={**os.environ, "MAKEFLAGS": ""},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    assert done.stderr.startswith(f"make {target}: this machine lacks what follows. Nothing has been downloaded or compiled yet.\n")
    found = lacking(done.stderr)
    assert set(found) - BARE[target] <= OF_THE_MACHINE
    assert BARE[target] <= set(found)
    assert all(re.search(r"install|name|run |use ", remedy) for _, remedy in found.values()), found
    assert "setup" not in done.stdout
    assert not (tmp_path / "cache").exists()
    assert time.monotonic() - begun_s < 60  # a moment on an idle machine


@pytest.mark.parametrize("target", TARGETS)
def test_a_machine_without_python_is_told_that_first(target):
    done = subprocess.run(
        [MAKE, "-C", str(ROOT), target, "PYTHON="], env={**os.environ, "MAKEFLAGS": ""}, capture_output=True, text=True, check=False
    )

    assert done.returncode == 2
    assert "dblog needs Python 3.11 or later" in done.stderr
    assert "line " not in done.stderr


@pytest.mark.parametrize("target", ["alerts-test", "lake-test"])
def test_a_machine_that_runs_these_tests_lacks_nothing_for_the_trials_on_its_own_servers(target):
    done = asked(target)

    assert set(lacking(done.stderr)) <= BUSY
    if done.returncode == 0:
        assert re.fullmatch(rf"make {target}: .*some \d+ minutes on two idle cores\n", done.stdout)


def test_a_program_that_is_too_old_is_named_with_its_version(programs):
    write(programs, "go", "echo go version go1.19.8 linux/amd64")
    write(programs, "java", """echo 'openjdk version "11.0.20" 2023-07-18' >&2""")

    found = lacking(asked("kubernetes-test").stderr)

    assert found["Go 1.24 or later"][0] == f"{programs / 'go'} is version 1.19."
    assert found["Java 17 or later"][0] == f"{programs / 'java'} is version 11."


def test_a_java_that_only_says_where_java_can_be_had_is_none(programs):
    write(programs, "java", "echo 'Unable to locate a Java Runtime.' >&2; exit 1")

    wrong, _ = lacking(asked("alerts-test").stderr)["Java 17 or later"]

    assert wrong == "`java -version` names no version and says: Unable to locate a Java Runtime."


def test_an_engine_whose_daemon_does_not_answer_is_no_engine(programs, monkeypatch):
    monkeypatch.setattr(engine, "_ANSWER_S", 0.5)
    write(programs, "podman", "exit 1")
    write(programs, "docker", "exec /bin/sleep 1000")
    begun_s = time.monotonic()

    assert engine.working() is None
    assert machine.container_engine() == "docker and podman do not answer `info`"
    assert time.monotonic() - begun_s < 30

    write(programs, "buildah", "exit 0")
    assert engine.working().kind == "buildah"
    assert engine.working(engine.RUNNING) is None


def test_an_engine_that_is_named_is_not_replaced_by_another_one(programs, monkeypatch):
    write(programs, "podman", "exit 0")
    monkeypatch.setenv("ENGINE", "/nowhere/docker")

    assert "ENGINE=/nowhere/docker is not a program of this machine" in machine.container_engine()
    with pytest.raises(engine.Unavailable, match="ENGINE=/nowhere/docker"):
        engine.install()


def test_an_image_that_is_not_built_is_not_saved_and_the_command_that_builds_it_is_named(programs, tmp_path):
    write(programs, "podman", "exit 125")

    with pytest.raises(engine.Unavailable, match=r"podman has no image dblog-sink:1\. Build it: make images"):
        engine.Engine("podman").save("dblog-sink:1", tmp_path / "dblog-sink.tar")


def in_user_namespace(*options):
    line = [UNSHARE or "unshare", "--user", *options]
    if UNSHARE is None or subprocess.run([*line, "/bin/true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this kernel gives no user namespace, in which one is another user")
    return line


def test_a_user_who_is_not_root_is_told_what_only_root_can_do(programs):
    write(programs, "apt-get", "exit 0")

    found = lacking(asked("kubernetes-test", *in_user_namespace("--map-user=1000")).stderr)

    assert found["root"] == ("the user is number 1000.", "run make as root")
    assert "which installs Podman by itself" in found["docker, podman or buildah"][1]
    assert found["docker, podman or buildah"][1].startswith("apt-get install podman;")


def test_a_root_who_may_not_make_a_node_is_told_what_the_kernel_refuses():
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root can give up the rights of root")
    rights = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"]

    done = asked("kubernetes-test", *rights)

    wrong, remedy = lacking(done.stderr)["a kernel that lets root make a node"]
    assert "the kernel refuses unshare: " in wrong
    assert "--privileged" in remedy


def test_a_disk_that_is_full_is_named_with_what_is_free_and_what_is_needed(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    small = 'mount -t tmpfs -o size=300m tmpfs "$DBLOG_CACHE" && exec "$@"'
    (tmp_path / "small").mkdir()

    done = asked("lake-test", "env", f"DBLOG_CACHE={tmp_path / 'small'}", "unshare", "--mount", "sh", "-c", small, "sh")

    assert lacking(done.stderr)["room on the disk"] == (
        f"{tmp_path / 'small'}: 0.3 GB are free and 2.5 GB are needed.",
        "make room, or move what is large: DBLOG_CACHE=/elsewhere",
    )


@pytest.mark.parametrize(
    ("available_kb", "limit", "wrong"),
    [
        (8_000_000, "max", None),
        (8_000_000, "9223372036854771712", None),
        (3_000_000, "max", "3.1 GB are free and 4 GB are needed"),
        (8_000_000, "2000000000", "2.0 GB are free and 4 GB are needed"),
    ],
)
def test_memory_is_what_is_free_within_the_limit_of_a_container(tmp_path, available_kb, limit, wrong):
    (tmp_path / "meminfo").write_text(f"MemTotal: 9000000 kB\nMemAvailable:   {available_kb} kB\n")
    (tmp_path / "memory.max").write_text(f"{limit}\n")

    assert machine.memory(4, meminfo=tmp_path / "meminfo", limits=[str(tmp_path / "memory.max"), "/nowhere"]) == wrong


def test_archives_of_images_that_are_not_where_they_are_said_to_be_are_missed(programs, monkeypatch, tmp_path):
    monkeypatch.setenv("IMAGES", str(tmp_path))
    (tmp_path / "dblog-sink.tar").touch()

    found = lacking(asked("kubernetes-test").stderr)

    assert found[f"archives of the images in IMAGES={tmp_path}"][0] == "there is no dblog-worker.tar."
    assert "docker, podman or buildah" not in found


def test_the_node_alone_needs_no_images_and_no_database(programs):
    names = {need.what for need in kubernetes_test(only="tests/kubernetes/node_for_real.py").needs}

    assert not any("images" in name or "MariaDB" in name for name in names)


def test_only_what_is_not_there_is_announced_with_its_minutes():
    made = (Made("a", 2, lambda: True), Made("b, once per machine", 8, lambda: False))

    assert announcement(Trial("x-test", (), made, minutes=10)) == (
        "make x-test: made first: b, once per machine (8 min); some 18 minutes on two idle cores"
    )
