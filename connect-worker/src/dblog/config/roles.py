"""Roles of users, each for all connectors or for those whose name matches a pattern. Pure except
for reading the file.

A line of the file is ``user=role`` or ``user=role pattern``, several separated by commas. ``@name``
stands for a group of a token, and ``*`` for every user who is let in. Rights add up. Without a file
every user who is let in is an administrator, as in Kafka Connect.
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
    """A role. Each includes the rights of those before it."""

    READER = 1
    """May read what the read-only listener shows: health, metrics, statuses, offsets, schemas."""
    VIEWER = 2
    """May also read configurations, without their secrets."""
    OPERATOR = 3
    """May also pause, resume, stop, restart, dump without SQL, explain DDL, register schemas."""
    ADMIN = 4
    """May do everything, including configurations (and so their SQL), offsets and log levels."""


@dataclass(frozen=True, slots=True)
class Grant:
    """A role for the connectors whose whole name matches.

    Without a pattern it applies to all connectors, and to what belongs to none.
    """

    role: Role
    pattern: Pattern | None = None


@dataclass(frozen=True, slots=True)
class Grants:
    """All grants of one client."""

    granted: tuple[Grant, ...] = ()

    def may(self, role: Role, connector: str | None = None) -> bool:
        """Return True if the client has the role for ``connector``.

        None stands for all connectors.
        """
        return any(
            grant.role >= role and (grant.pattern is None or (connector is not None and grant.pattern.fullmatch(connector)))
            for grant in self.granted
        )

    def may_somewhere(self, role: Role) -> bool:
        """Return True if the client has the role for any connector."""
        return any(grant.role >= role for grant in self.granted)


EVERYTHING = Grants((Grant(Role.ADMIN),))
OPERATING = Grants((Grant(Role.OPERATOR),))
READING = Grants((Grant(Role.READER),))
NOTHING = Grants()


class Roles:
    """The grants of users and groups."""

    def __init__(self, by_name: Mapping[str, tuple[Grant, ...]] | None) -> None:
        """Create the table. None grants everything to everybody."""
        self._by_name = by_name

    def of(self, user: str, groups: Iterable[str] = ()) -> Grants:
        """Return the user's grants by name, by groups, and as any user who was let in."""
        if self._by_name is None:
            return EVERYTHING
        # A provider or a certificate may use any name: a user called @dba is not the group dba.
        own = () if user.startswith(_GROUP) else (user,)
        names = (*own, *(f"{_GROUP}{group}" for group in groups), _EVERYBODY)
        return Grants(tuple(grant for name in names for grant in self._by_name.get(name, ())))


def parse_roles(lines: Mapping[str, str], *, file: str) -> Roles:
    """Parse the file's lines. Raise ConfigError, with the user, for an unknown role."""
    if not any(text.strip() for text in lines.values()):
        raise _wrong(f"the file {file} grants nothing to anybody; write a line user=admin for at least one")
    return Roles({name.strip(): tuple(_grant(item, name, file) for item in split_list(text)) for name, text in lines.items()})


def _grant(text: str, user: str, file: str) -> Grant:
    word, _, pattern = text.strip().partition(" ")
    known = {role.name.lower(): role for role in Role}
    if word.lower() not in known:
        names = ", ".join(known)
        raise _wrong(
            f"in the file {file}, {user} has the role {word}; there are {names}, each alone or followed by a pattern of connectors' names"
        )
    try:
        return Grant(known[word.lower()], Pattern(pattern.strip()) if pattern.strip() else None)
    except PatternError as e:
        raise _wrong(f"in the file {file}, the pattern of {user} cannot be used: {e}") from e


def _wrong(text: str) -> ConfigError:
    return ConfigError({ROLES_FILE: [text]})
