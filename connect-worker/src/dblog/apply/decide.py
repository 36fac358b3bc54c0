"""Decides which actions turn the present connectors into the wanted ones. Pure: ``decide`` has the
whole rule.

A connector belongs to the owner named in its configuration under ``dblog.owner``. Connectors of
other owners, or without one, are never touched, so people can run their own beside these. A
connector is deleted only if deletion was requested, the connector is ours, and every file could be
read. If there is no file at all, a second option must confirm the deletion: a folder that is not
mounted or checked out yet looks the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from dblog.apply.wanted import Wanted, WantedState

OWNER = "dblog.owner"
_PREFIX = "topic.prefix"
_NO_FILE = (
    "there is no file of any connector; it stays, since a folder that is not mounted or checked out looks like this: put the files there, or say with "
    "--prune-all that every connector of this owner is to be deleted"
)


@dataclass(frozen=True, slots=True)
class Present:
    """A connector of the worker, as its REST API shows it."""

    name: str
    config: Mapping[str, str] = field(repr=False)
    state: str = ""
    """State such as RUNNING, PAUSED, STOPPED, FAILED or UNASSIGNED; empty before the
    first status.
    """


@dataclass(frozen=True, slots=True)
class Create:
    """Create the connector in this state; None leaves the state to the worker."""

    name: str
    config: Mapping[str, str] = field(repr=False)
    state: WantedState | None = None


@dataclass(frozen=True, slots=True)
class Update:
    """Replace the connector's configuration; ``keys`` are the options that differ."""

    name: str
    config: Mapping[str, str] = field(repr=False)
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SetState:
    """Resume, pause or stop the connector."""

    name: str
    state: WantedState


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a connector of this owner that is no longer wanted."""

    name: str
    renamed: str = ""
    """Name of the wanted connector that is not created yet and has the same topic.prefix, as after
    a rename; empty without one.
    """


@dataclass(frozen=True, slots=True)
class Leave:
    """Do nothing: the connector is ours and no longer wanted, but must not be deleted now."""

    name: str
    reason: str
    doubles: str = ""
    """Name of the wanted connector with the same topic.prefix, as after a rename, so that both
    write to the same topics; empty without one.
    """
    problem: bool = False
    """True if a person has to look: deletion was requested, but the folder of files looks wrong."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """Do nothing: the connector is wanted, but one of this name belongs to another owner."""

    name: str
    reason: str


Action = Create | Update | SetState | Delete | Leave | Refuse


def decide(
    wanted: Mapping[str, Wanted], present: Mapping[str, Present], *, owner: str, prune: bool, prune_all: bool, complete: bool
) -> list[Action]:
    """Return the actions: deletions first, each kind ordered by name.

    ``complete`` is True if every file could be read, so that a connector in no file is not wanted.
    ``prune_all`` allows deletions even if no file exists. A renamed connector is deleted and
    created; deletions come first, because a worker refuses a connector that writes to another one's
    topics.
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
"""States out of which a connector is taken, by its wanted state. UNASSIGNED and RESTARTING pass
without help. A FAILED connector does not show the state it was meant to have, so only a stop is
sure to change something.
"""


def _not_ours(owner: str | None, own: str) -> str:
    whose = f"belongs to {owner}" if owner else "was made by others"
    return (
        f"a connector of this name {whose} and is not touched; to hand it over, set {OWNER}={own} in it (PATCH /connectors/NAME/config), or "
        f"choose another name"
    )
