"""Decides what to do so that the connectors that are there become those that are wanted. Pure: the whole rule is in ``decide``.

A connector belongs to whoever stands in its configuration under ``dblog.owner``. What belongs to another one, or to nobody, is not touched: people's own
connectors live beside. Deletion needs three things: it was asked for, the connector is ours, and every file could be read. Where no file is there at all, it
was asked for twice, since a folder that is not mounted or checked out yet looks like that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from dblog.apply.wanted import Wanted, WantedState

OWNER = "dblog.owner"
_PREFIX = "topic.prefix"
_NO_FILE = (
    "there is no file of any connector; it stays, since a folder that is not mounted or checked out looks like this: put the files there, or say with "
    "--prune-all that every connector of this owner shall be deleted"
)


@dataclass(frozen=True, slots=True)
class Present:
    """A connector of the worker, as its REST interface shows it."""

    name: str
    config: Mapping[str, str] = field(repr=False)
    state: str = ""
    """RUNNING, PAUSED, STOPPED, FAILED, UNASSIGNED ...; empty before its first status."""


@dataclass(frozen=True, slots=True)
class Create:
    """Create it, in that state."""

    name: str
    config: Mapping[str, str] = field(repr=False)
    state: WantedState | None = None


@dataclass(frozen=True, slots=True)
class Update:
    """Replace its configuration; ``keys`` are those that differ."""

    name: str
    config: Mapping[str, str] = field(repr=False)
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SetState:
    """Resume, pause or stop it."""

    name: str
    state: WantedState


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete it: it is ours, and no longer wanted."""

    name: str
    renamed: str = ""
    """The wanted connector that has its topic.prefix and is not there yet, as after a change of name."""


@dataclass(frozen=True, slots=True)
class Leave:
    """Do nothing: it is ours and no longer wanted, and nothing may be deleted now."""

    name: str
    reason: str
    doubles: str = ""
    """The wanted connector that has its topic.prefix, as after a change of name: both write to the same topics."""
    problem: bool = False
    """Whether a person has to look: its deletion was asked for, and the folder of files is suspicious."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """Do nothing: it is wanted, and not ours."""

    name: str
    reason: str


Action = Create | Update | SetState | Delete | Leave | Refuse


def decide(
    wanted: Mapping[str, Wanted], present: Mapping[str, Present], *, owner: str, prune: bool, prune_all: bool, complete: bool
) -> list[Action]:
    """Return the actions: deletions first, each kind by name.

    ``complete``: every file could be read, so what none of them wants is not wanted. ``prune_all``: even if none is there. A connector that got another name is
    deleted and created, and no worker creates a connector beside one that writes to the same topics.
    """
    actions: list[Action] = []
    deletions: list[Action] = []
    for name, one in sorted(wanted.items()):
        there = present.get(name)
        if there is None:
            actions.append(Create(name, _owned(one, owner), one.state))
        elif there.config.get(OWNER) != owner:
            actions.append(Refuse(name, _not_ours(there.config.get(OWNER), owner)))
        else:
            actions += _changes(one, there, owner)
    prefixes = {
        one.config[_PREFIX]: name for name, one in sorted(wanted.items()) if _PREFIX in one.config and one.state is not WantedState.STOPPED
    }
    for name, there in sorted(present.items()):
        if name in wanted or there.config.get(OWNER) != owner:
            continue
        if prune and complete and (wanted or prune_all):
            successor = prefixes.get(there.config.get(_PREFIX, ""), "")
            deletions.append(Delete(name, renamed="" if successor in present else successor))
        else:
            problem = False
            if not complete:
                why = "no file that could be read wants it; it stays, since a file could not be read, which may be its own"
            elif prune:
                why, problem = _NO_FILE, True
            else:
                why = "no file wants it any more; it stays, since deleting was not asked for (--prune)"
            doubles = "" if there.state == "STOPPED" else prefixes.get(there.config.get(_PREFIX, ""), "")
            actions.append(Leave(name, why, doubles, problem))
    return deletions + actions


def _owned(one: Wanted, owner: str) -> dict[str, str]:
    return {**one.config, OWNER: owner}


def _changes(one: Wanted, there: Present, owner: str) -> Iterator[Action]:
    config = _owned(one, owner)
    if config != there.config:
        differing = {key for key in {*config, *there.config} if config.get(key) != there.config.get(key)}
        yield Update(one.name, config, tuple(sorted(differing)))
    if one.state is not None and there.state in _LEAVES[one.state]:
        yield SetState(one.name, one.state)


_LEAVES = {
    WantedState.RUNNING: frozenset({"PAUSED", "STOPPED"}),
    WantedState.PAUSED: frozenset({"RUNNING", "STOPPED"}),
    WantedState.STOPPED: frozenset({"RUNNING", "PAUSED", "FAILED"}),
}
"""The states out of which a connector is taken. UNASSIGNED and RESTARTING pass by themselves; what FAILED was wanted to do is not shown, so only a stop is
certain to change something.
"""


def _not_ours(owner: str | None, own: str) -> str:
    whose = f"belongs to {owner}" if owner else "was made by others"
    return (
        f"a connector of this name {whose} and is not touched; to hand it over, set {OWNER}={own} in it (PATCH /connectors/NAME/config), or "
        f"choose another name"
    )
