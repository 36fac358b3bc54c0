"""Gets the Java libraries of this folder's poms from Maven into the cache."""

import hashlib
from pathlib import Path

from stack.cache import cached, locked
from stack.commands import program, run

POMS = Path(__file__).parent / "poms"
_DEPENDENCY_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
INSTALL_JAVA = "a JDK 17 (Debian: apt-get install openjdk-17-jdk-headless; macOS: brew install openjdk@17)"
_INSTALL_MAVEN = "Maven 3.8 or later (Debian: apt-get install maven; macOS: brew install maven)"


def java() -> str:
    """Return the `java` to run servers with."""
    return program("java", install=INSTALL_JAVA)


def jars_entry(name: str, *, only: tuple[str, ...] = ()) -> str:
    """Return the name of the cache entry with these jars, which changes with the pom's content."""
    digest = hashlib.sha256((POMS / f"{name}.xml").read_bytes() + ",".join(only).encode()).hexdigest()[:12]
    return f"{name}-jars-{digest}"


def jars(name: str, *, only: tuple[str, ...] = ()) -> Path:
    """Return the folder with the jars of `poms/<name>.xml` and their dependencies.

    `only` selects some artifacts of them.
    """
    pom = POMS / f"{name}.xml"

    def fill(folder: Path) -> None:
        # Maven's own message without a JDK is hard to read.
        java()
        maven = program("mvn", install=_INSTALL_MAVEN)
        goal = [f"{_DEPENDENCY_PLUGIN}:copy-dependencies", f"-DoutputDirectory={folder}", "-DincludeScope=runtime"]
        # Two Mavens at once can damage the local repository that they share.
        with locked("maven"):
            run(
                [maven, "--batch-mode", "--quiet", f"--file={pom}", *goal, f"-DincludeArtifactIds={','.join(only)}"],
                what=f"Downloading the jars of {pom.name} with Maven",
            )

    return cached(jars_entry(name, only=only), fill)
