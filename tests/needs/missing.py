"""One need of a trial, and the one answer that names everything a machine lacks for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Need:
    """Something that a trial uses and cannot make itself."""

    what: str
    """Its name, and what it is for."""
    look: Callable[[], str | None]
    """Says what is wrong with it on this machine; None when nothing is. It takes less than a second."""
    remedy: str
    """What to do, in one line; empty where `packages` say it all."""
    packages: tuple[str, ...] = ()
    """The packages of Debian that bring it."""


@dataclass(frozen=True, slots=True)
class Made:
    """Something that a trial uses and makes by itself when it is not there."""

    what: str
    minutes: float
    """How long it takes on two cores."""
    there: Callable[[], bool]
    make: Callable[[], object] | None = None
    """Makes it; None where `make setup` or the trial itself does."""
    is_silent: bool = True
    """It prints nothing while it is made, so somebody must say that it goes on."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A target of the Makefile that takes minutes."""

    target: str
    needs: tuple[Need, ...]
    made: tuple[Made, ...]
    minutes: float
    """How long it takes when everything is made."""


def missing(needs: Sequence[Need]) -> list[tuple[Need, str]]:
    """Return the needs that this machine does not meet, each with what is wrong. All are looked at, at once."""
    with ThreadPoolExecutor(max_workers=16) as looking:
        found = looking.map(lambda need: need.look(), needs)
        return [(need, wrong) for need, wrong in zip(needs, found, strict=True) if wrong is not None]


def refusal(trial: Trial, found: Sequence[tuple[Need, str]], *, has_apt: bool) -> str:
    """Return the answer to somebody whose machine lacks something: each thing, what is wrong with it, and its remedy."""
    lines = [f"make {trial.target}: this machine lacks what follows. Nothing has been downloaded or compiled yet."]
    for need, wrong in found:
        packages = " ".join(need.packages)
        of_debian = f"{'' if has_apt else 'Debian: '}apt-get install {packages}" if packages else ""
        remedies = "; ".join(text for text in (of_debian, need.remedy) if text)
        lines.append(f"  - {need.what}: {wrong}.\n    {remedies}")
    packages = list(dict.fromkeys(package for need, _ in found for package in need.packages))
    if has_apt and len(packages) > 1:
        lines.append(f"All of Debian's packages at once, as root: apt-get install --no-install-recommends {' '.join(packages)}")
    return "\n".join(lines)


def announcement(trial: Trial) -> str:
    """Return what the trial makes first, and how long everything takes."""
    making = [made for made in trial.made if not made.there()]
    total = trial.minutes + sum(made.minutes for made in making)
    first = f"made first: {', '.join(f'{made.what} ({made.minutes:g} min)' for made in making)}; " if making else ""
    return f"make {trial.target}: {first}some {total:g} minutes on two idle cores"
