"""Gets the Java libraries of this folder's poms from Maven into the cache."""

import hashlib
import re
import zipfile
from pathlib import Path

from stack.cache import cached, locked
from stack.commands import run
from stack.errors import StackError
from stack.java import java, maven
from stack.steps import current

POMS = Path(__file__).parent / "poms"
_DEPENDENCY_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
_DOWNLOADED = re.compile(r"Downloaded from \S+ \S*/(\S+\.jar) \(([\d.]+) ([kM]?B)")
_UNITS_MB = {"B": 1e-6, "kB": 1e-3, "MB": 1.0}


def jars_entry(name: str, *, only: tuple[str, ...] = ()) -> str:
    """Return the name of the cache entry with these jars, which changes with the pom's content."""
    digest = hashlib.sha256((POMS / f"{name}.xml").read_bytes() + ",".join(only).encode()).hexdigest()[:12]
    return f"{name}-jars-{digest}"


def jars(name: str, *, only: tuple[str, ...] = ()) -> Path:
    """Return the folder with the jars of `poms/<name>.xml` and their dependencies.

    `only` selects some artifacts of them. Raise StackError with the file and the remedy if a download
    is broken.
    """
    pom = POMS / f"{name}.xml"

    def fill(folder: Path) -> None:
        # Maven's own message without a JDK is hard to read.
        java()
        goal = [f"{_DEPENDENCY_PLUGIN}:copy-dependencies", f"-DoutputDirectory={folder}", "-DincludeScope=runtime"]
        line, env = maven(["--batch-mode", f"--file={pom}", *goal, f"-DincludeArtifactIds={','.join(only)}"])
        downloaded_mb = 0.0

        def took(text: str) -> None:
            nonlocal downloaded_mb
            if found := _DOWNLOADED.search(text):
                downloaded_mb += float(found[2]) * _UNITS_MB[found[3]]
                current().note(f"{downloaded_mb:,.0f} MB, {found[1]}")

        # Two Mavens at once can damage the local repository that they share.
        with locked("maven"):
            try:
                run(line, what=f"Downloading the jars of {pom.name} with Maven", env=env, on_line=took)
            except StackError as error:
                raise StackError(
                    f"{error}\nMaven keeps what it has downloaded: look at the network, or a proxy or mirror in ~/.m2/settings.xml, then run make again"
                ) from error
        check(folder)

    return cached(jars_entry(name, only=only), fill)


def check(folder: Path) -> None:
    """Raise StackError if a jar in the folder is broken, with its name and the remedy."""
    for jar in sorted(folder.glob("*.jar")):
        if not zipfile.is_zipfile(jar):
            raise StackError(
                f"{jar.name} was not downloaded whole ({jar.stat().st_size:,} bytes, and no jar). Remove it from Maven's repository, then run make again: "
                f"find ~/.m2/repository -name {jar.name} -delete"
            )
