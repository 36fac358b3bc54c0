"""What a user may do: roles, each for all connectors or for those whose name matches a pattern. Pure but for reading the file.

A line of the file is ``user=role`` or ``user=role pattern``, several with commas between them. ``@name`` stands for a group of a token, ``*`` for everybody
who is let in. Rights add up. Without a file everybody who is let in is an administrator, as in Kafka Connect.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from dblog.config.options import split_list
from dblog.config.regex import Pattern, PatternError
from dblog.errors import ConfigError

ROLES_FILE = "dblog.rest.roles.file"
_EVERYBODY = "*"
_GROUP = "@"


class Role(IntEnum):
    """Each may do what those before it may."""

    READER = 1
    """What the listener shows that only reads: health, metrics, statuses, offsets, schemas."""
    VIEWER = 2
    """Configurations too, without what is secret in them."""
    OPERATOR = 3
    """Pauses, resumes, stops, restarts; starts dumps without SQL of their own; explains DDL; registers schemas."""
    ADMIN = 4
    """Everything: configurations (and so the SQL in them), offsets, levels of the log."""


@dataclass(frozen=True, slots=True)
class Grant:
    """A role for the connectors whose whole name matches; no pattern: for all of them, and for what belongs to none."""

    role: Role
    pattern: Pattern | None = None


@dataclass(frozen=True, slots=True)
class Grants:
    """All that one client may."""

    granted: tuple[Grant, ...] = ()

    def may(self, role: Role, connector: str | None = None) -> bool:
        """Whether the role is had for this connector; None: for all of them."""
        return any(
            grant.role >= role and (grant.pattern is None or (connector is not None and grant.pattern.fullmatch(connector)))
            for grant in self.granted
        )

    def may_somewhere(self, role: Role) -> bool:
        """Whether the role is had for any connector."""
        return any(grant.role >= role for grant in self.granted)


EVERYTHING = Grants((Grant(Role.ADMIN),))
OPERATING = Grants((Grant(Role.OPERATOR),))
READING = Grants((Grant(Role.READER),))
NOTHING = Grants()


class Roles:
    """Who has which grants."""

    def __init__(self, by_name: Mapping[str, tuple[Grant, ...]] | None) -> None:
        """None: everybody may everything."""
        self._by_name = by_name

    def of(self, user: str, groups: Iterable[str] = ()) -> Grants:
        """All that the user has by name, by groups and as somebody who was let in."""
        if self._by_name is None:
            return EVERYTHING
        # A provider or a certificate may name anybody: a user called @dba is not the group dba.
        own = () if user.startswith(_GROUP) else (user,)
        names = (*own, *(f"{_GROUP}{group}" for group in groups), _EVERYBODY)
        return Grants(tuple(grant for name in names for grant in self._by_name.get(name, ())))


def parse_roles(lines: Mapping[str, str], *, file: str) -> Roles:
    """ConfigError, with the user, for a line that grants nothing known."""
    if not any(text.strip() for text in lines.values()):
        raise _wrong(f"the file {file} grants nothing to anybody; write a line user=admin for at least one")
    return Roles({name.strip(): tuple(_grant(item, name, file) for item in split_list(text)) for name, text in lines.items()})


def _grant(text: str, user: str, file: str) -> Grant:
    word, _, pattern = text.strip().partition(" ")
    known = {role.name.lower(): role for role in Role}
    if word.lower() not in known:
        names = ", ".join(known)
        raise _wrong(
            f"in the file {file}, {user} has the role {word}; there are {names}, each with a pattern of connectors' names behind it, or alone"
        )
    try:
        return Grant(known[word.lower()], Pattern(pattern.strip()) if pattern.strip() else None)
    except PatternError as e:
        raise _wrong(f"in the file {file}, the pattern of {user} cannot be used: {e}") from e


def _wrong(text: str) -> ConfigError:
    return ConfigError({ROLES_FILE: [text]})
