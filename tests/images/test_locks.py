"""What the images install is what the packages ask for, each file with its hash; `make images-lock` writes the lists again."""

import hashlib
import re
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from stack import image_jars, s3a_jars

ROOT = Path(__file__).parents[2]
LOCKS = ROOT / "docker" / "images" / "locks"
PROJECTS = {"worker": "connect-worker", "sink": "spark-sink"}
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(name: str) -> dict[str, Requirement]:
    """The requirements of a list, by name; each must have a hash."""
    found = {}
    for entry in (LOCKS / f"{name}.txt").read_text().replace("\\\n", " ").splitlines():
        if not entry.startswith("#"):
            assert HASH.search(entry), f"{entry.split()[0]} has no hash in {name}.txt; run make images-lock"
            requirement = Requirement(HASH.sub("", entry).strip())
            found[normal(requirement.name)] = requirement
    return found


def needed(requirements: list[Requirement], seen: set[str]) -> set[str]:
    """The names of all that is needed on this platform, directly or not, by what the installed packages say of themselves."""
    for requirement in requirements:
        name = normal(requirement.name)
        if name not in seen:
            seen.add(name)
            asked = [Requirement(text) for text in distribution(name).requires or ()]
            extras = requirement.extras or {""}
            needed([each for each in asked if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in extras)], seen)
    return seen


@pytest.mark.parametrize("name", PROJECTS)
def test_an_image_installs_all_that_its_package_needs_and_nothing_else(name):
    project = tomllib.loads((ROOT / PROJECTS[name] / "pyproject.toml").read_text())["project"]
    asked = [Requirement(text) for text in (*project["dependencies"], *project["optional-dependencies"]["tracing"])]

    here = {key for key, requirement in locked(name).items() if requirement.marker is None or requirement.marker.evaluate()}

    assert here == needed(asked, set()), f"{name}.txt does not fit {PROJECTS[name]}/pyproject.toml; run make images-lock"


@pytest.mark.parametrize("name", PROJECTS)
def test_an_image_installs_the_versions_that_the_tests_run_with(name):
    for key, requirement in locked(name).items():
        if requirement.marker is None or requirement.marker.evaluate():
            assert str(requirement.specifier) == f"=={distribution(key).version}", (
                f"{key} of {name}.txt is not the version of the tests; run make images-lock"
            )


def test_the_wheels_are_built_with_the_tools_that_the_packages_name():
    asked = tomllib.loads((ROOT / "connect-worker" / "pyproject.toml").read_text())["build-system"]["requires"]
    asked += tomllib.loads((ROOT / "spark-sink" / "pyproject.toml").read_text())["build-system"]["requires"]

    assert {normal(each.name): str(each.specifier) for each in map(Requirement, asked)} == {
        name: str(each.specifier) for name, each in locked("build").items()
    }


def test_the_jars_are_those_of_the_tests_byte_for_byte():
    listed = dict(reversed(line.split("  ")) for line in (LOCKS / "jars.txt").read_text().splitlines())

    assert listed == {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in image_jars()}


def test_the_sinks_image_has_all_that_tables_in_s3_need():
    listed = {line.split("  ")[1] for line in (LOCKS / "jars.txt").read_text().splitlines()}
    from_source = {jar.name for jar in s3a_jars()} - listed

    assert from_source == {"dblog-s3-log-store.jar"}  # compiled in the builder's stage; everything else is locked
    assert {"hadoop-aws-3.4.2.jar", "s3-2.29.52.jar", "sts-2.29.52.jar"} <= listed
