"""Java libraries come from Maven, by a pom of this folder, into one cache entry per content of that pom."""

import hashlib
from pathlib import Path

from stack.cache import cached, locked
from stack.commands import program, run

POMS = Path(__file__).parent / "poms"
_DEPENDENCY_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
INSTALL_JAVA = "a JDK 17 (Debian: apt-get install openjdk-17-jdk-headless; macOS: brew install openjdk@17)"
_INSTALL_MAVEN = "Maven 3.8 or later (Debian: apt-get install maven; macOS: brew install maven)"


def java() -> str:
    """The `java` to run servers with."""
    return program("java", install=INSTALL_JAVA)


def jars_entry(name: str, *, only: tuple[str, ...] = ()) -> str:
    """The entry of the cache folder that has them: another content of the pom is another entry."""
    digest = hashlib.sha256((POMS / f"{name}.xml").read_bytes() + ",".join(only).encode()).hexdigest()[:12]
    return f"{name}-jars-{digest}"


def jars(name: str, *, only: tuple[str, ...] = ()) -> Path:
    """The folder with the jars of `poms/<name>.xml` and all they depend on; when `only` is given, just those artifacts of them."""
    pom = POMS / f"{name}.xml"

    def fill(folder: Path) -> None:
        java()  # Maven's own message without a JDK is hard to read
        maven = program("mvn", install=_INSTALL_MAVEN)
        goal = [f"{_DEPENDENCY_PLUGIN}:copy-dependencies", f"-DoutputDirectory={folder}", "-DincludeScope=runtime"]
        with locked("maven"):  # two Mavens at once can spoil the local repository that they share
            run(
                [maven, "--batch-mode", "--quiet", f"--file={pom}", *goal, f"-DincludeArtifactIds={','.join(only)}"],
                what=f"Downloading the jars of {pom.name} with Maven",
            )

    return cached(jars_entry(name, only=only), fill)
