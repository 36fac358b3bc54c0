"""What can be read off the Dockerfiles without building them."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docker" / "images"
FILES = {"worker": IMAGES / "worker.Dockerfile", "sink": IMAGES / "sink.Dockerfile"}
LABELS = ("title", "description", "version", "revision", "created", "source", "licenses", "base.name", "base.digest")


def final_stage(name: str) -> list[str]:
    """The instructions of the last stage, continued lines joined, comments left out."""
    text = re.sub(r"^#.*\n", "", FILES[name].read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    instructions = [re.sub(r"\s+", " ", line).strip() for line in text.splitlines() if line.strip()]
    start = max(at for at, line in enumerate(instructions) if line.startswith("FROM "))
    return instructions[start:]


def argument(name: str, instruction: str) -> str:
    found = [line.partition(" ")[2] for line in final_stage(name) if line.startswith(f"{instruction} ")]
    assert len(found) == 1, f"{name}: {len(found)} times {instruction}"
    return found[0]


@pytest.mark.parametrize("name", FILES)
def test_hadolint_has_nothing_to_say(name):
    done = subprocess.run(
        [Path(sys.executable).with_name("hadolint"), "--no-color", str(FILES[name])], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("name", FILES)
def test_nothing_names_a_processor(name):
    scripts = "".join(path.read_text() for path in (IMAGES / "inside").iterdir() if path.is_file())

    assert not re.search(r"amd64|x86.64|aarch64|arm64|-march|-mtune", FILES[name].read_text() + scripts)


@pytest.mark.parametrize("name", FILES)
def test_the_base_is_pinned_by_digest_and_can_be_another(name):
    default = re.search(r"^ARG BASE_IMAGE=(\S+)$", FILES[name].read_text(), re.MULTILINE)

    assert re.fullmatch(r"docker\.io/library/python:3\.11\.\d+-slim-bookworm@sha256:[0-9a-f]{64}", default[1])
    assert set(re.findall(r"^FROM (\S+)", FILES[name].read_text(), re.MULTILINE)) == {"${BASE_IMAGE}"}


def test_both_images_stand_on_one_base():
    assert len({re.search(r"^ARG BASE_IMAGE=(\S+)$", file.read_text(), re.MULTILINE)[1] for file in FILES.values()}) == 1


@pytest.mark.parametrize("name", FILES)
def test_it_runs_as_a_number_of_the_group_that_any_number_may_have(name):
    assert argument(name, "USER") == "10001:0"


@pytest.mark.parametrize("name", FILES)
def test_the_first_process_is_tini_started_without_a_shell(name):
    assert argument(name, "ENTRYPOINT").startswith('["/usr/bin/tini", "--", ')
    assert argument(name, "CMD").startswith("[")


@pytest.mark.parametrize("name", FILES)
def test_the_health_check_is_a_program_of_the_image(name):
    assert re.search(r'CMD \["(dblog|sink-entrypoint)", "health"\]$', argument(name, "HEALTHCHECK"))


@pytest.mark.parametrize("name", FILES)
def test_every_label_is_there(name):
    assert re.findall(r"org\.opencontainers\.image\.([a-z.]+)=", argument(name, "LABEL")) == list(LABELS)


@pytest.mark.parametrize("name", FILES)
def test_the_last_stage_has_no_compiler_and_runs_no_pip(name):
    assert not re.search(r"\bgcc\b|\bpip\b|-jdk|\bmaven\b|-dev\b", " ".join(line for line in final_stage(name) if line.startswith("RUN ")))


@pytest.mark.parametrize("name", FILES)
def test_what_a_builder_lends_is_a_secret_and_no_argument(name):
    text = FILES[name].read_text()
    declared = set(re.findall(r"^ARG (\w+)", text, re.MULTILINE))

    assert declared == {"BASE_IMAGE", "BASE_DIGEST", "SOURCE_DATE_EPOCH", "VERSION", "REVISION", "CREATED", "SOURCE"}
    assert not re.search(r"https?://", text)


def test_the_image_of_the_worker_has_what_the_demo_of_the_chart_runs(tmp_path):
    for line in final_stage("worker"):
        if line.startswith("COPY docker/demo/"):
            *files, folder = line.split()[1:]
            place = tmp_path / Path(folder).relative_to("/opt/dblog/share/demo")
            place.mkdir(parents=True, exist_ok=True)
            for file in files:
                shutil.copy(ROOT / file, place)
    # The image has neither the stack of servers nor what reads Delta.
    script = "import sys; sys.modules |= dict.fromkeys(('stack', 'deltalake', 'pyspark')); import demo.shopkeeper, demo.identical; print(demo.__file__)"
    done = subprocess.run(
        [sys.executable, "-P", "-c", script], capture_output=True, text=True, check=False, env={"PYTHONPATH": str(tmp_path)}
    )

    assert (done.returncode, done.stdout.strip()) == (0, str(tmp_path / "demo" / "__init__.py")), done.stderr
    assert "!docker/demo" in (ROOT / ".dockerignore").read_text().splitlines()


def test_the_context_of_a_build_leaves_out_what_was_built_in_place():
    ignored = (ROOT / ".dockerignore").read_text().splitlines()

    assert "*" in ignored
    assert {"**/*.so", "**/build", "**/__pycache__"} <= set(ignored)
