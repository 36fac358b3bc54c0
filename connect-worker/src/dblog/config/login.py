"""Logins to the REST interface: Kafka Connect's basic authentication, with its extension class, its
login configuration and its file of users.

``rest.extension.classes`` names the extension. ``dblog.rest.login.config``, or a JVM's
``-Djava.security.auth.login.config`` in ``KAFKA_OPTS``, names the login configuration. Its entry
``KafkaConnect`` has the PropertyFileLoginModule with the file of users (``user=password``). Source:
Kafka's documentation of Connect (REST extensions) and that module's class comment. One difference:
an empty file of users lets everybody in with Kafka, and is refused here.

``dblog.rest.users.file`` names such a file directly, without Java's indirections. In both, a
password may be a hash (``dblog users hash``). The file is followed: a changed password needs no
restart.
"""

from __future__ import annotations

import base64
import binascii
import os
import shlex
import stat
from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path

import structlog

from dblog.config.followed import Followed
from dblog.config.jaas import JaasError, parse_entries
from dblog.config.options import Settings
from dblog.config.passwords import HashError, StoredPassword, stored
from dblog.config.properties import read_properties
from dblog.errors import ConfigError, DefiniteError

_log = structlog.get_logger("dblog.config")

BASIC_AUTH_EXTENSION = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
BASIC_AUTH_ALIAS = "BasicAuthSecurityRestExtension"
LOGIN_CONFIG = "dblog.rest.login.config"
USERS_FILE = "dblog.rest.users.file"
WITHOUT_LOGIN = "dblog.rest.without.login"
ISSUER = "dblog.rest.oidc.issuer"
_ENTRY = "KafkaConnect"
_MODULE = "org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule"
_SYSTEM_PROPERTY = "-Djava.security.auth.login.config="
_EXAMPLE = f'{_ENTRY} {{ {_MODULE} required file="/path/users.properties"; }};'


class Refusal(StrEnum):
    """Reason for refusing a login: for the worker's log, never for the client."""

    NONE_GIVEN = "no login"
    UNREADABLE = "not a basic login"
    NO_SUCH_USER = "no such user"
    WRONG_PASSWORD = "wrong password"  # noqa: S105  a reason
    BAD_TOKEN = "token that is none"  # noqa: S105  a reason
    TOKEN_ENDED = "token that has ended"  # noqa: S105  a reason
    TOKEN_TOO_EARLY = "token that is not valid yet"  # noqa: S105  a reason
    TOKEN_AUDIENCE = "token for another audience"  # noqa: S105  a reason
    TOKEN_ISSUER = "token of another issuer"  # noqa: S105  a reason
    TOKEN_KEY = "token of a key that the issuer's set does not have"  # noqa: S105  a reason
    TOKEN_SIGNATURE = "token with a wrong signature"  # noqa: S105  a reason
    TOKEN_ALGORITHM = "token of an algorithm that is not allowed"  # noqa: S105  a reason
    TOKEN_CLAIM = "token without a claim that is needed"  # noqa: S105  a reason


class Logins:
    """The users and their passwords."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        """Store the users. Raise HashError for a malformed hash."""
        self._users: dict[str, StoredPassword] = {}
        self._nobody = _NOBODY
        self.version = 0
        """Number that rises with each change of the users."""
        self._followed: Followed[dict[str, str]] | None = None
        self.take(passwords)

    @classmethod
    def of_file(cls, file: str, option: str) -> Logins:
        """Return the users of a file, which is followed from now on."""
        followed = Followed("the file of users", (file,), lambda: _passwords(file, option))
        logins = cls(followed.value)
        logins._followed = followed
        return logins

    def take(self, passwords: Mapping[str, str]) -> None:
        """Replace all users."""
        users = {user: stored(text) for user, text in passwords.items()}
        # An unknown user is compared with a password that nobody has, of the slowest kind in use;
        # otherwise the time would reveal which users exist.
        slow = max((user for user in users.values() if user.is_slow), key=lambda user: user.ln, default=None)
        self._nobody = _NOBODY if slow is None else replace(slow, digest=bytes(len(slow.digest)))
        self._users = users
        self.version += 1

    def refresh(self) -> None:
        """Reread the file if it has changed. Do not call it in the event loop's thread."""
        if self._followed is not None and self._followed.refresh():
            self.take(self._followed.value)

    @property
    def is_slow(self) -> bool:
        """True if a comparison is slow and needs a thread."""
        return self._nobody.is_slow

    def refusal(self, authorization: str) -> Refusal | None:
        """Return why an ``Authorization`` header is refused, or None if it is right."""
        found = self.user_of(authorization)
        return found if isinstance(found, Refusal) else None

    def user_of(self, authorization: str) -> str | Refusal:
        """Return the user of an ``Authorization`` header, or the refusal.

        Takes as long for unknown users.
        """
        scheme, _, encoded = authorization.strip().partition(" ")
        if not scheme:
            return Refusal.NONE_GIVEN
        if scheme.lower() != "basic":
            return Refusal.UNREADABLE
        try:
            user, colon, password = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
        except (binascii.Error, ValueError):
            return Refusal.UNREADABLE
        known = self._users.get(user)
        right = (known or self._nobody).is_of(password)
        if not colon:
            return Refusal.UNREADABLE
        if known is None:
            return Refusal.NO_SUCH_USER
        return user if right else Refusal.WRONG_PASSWORD


_NOBODY = StoredPassword(bytes(32))


def read_logins(settings: Settings, environment: Mapping[str, str]) -> Logins | None:
    """Return the users, or None if no login is required.

    Raise ConfigError for files that name no users, so that nobody is let in by mistake.
    """
    own = settings.text_or_none(USERS_FILE)
    if not {BASIC_AUTH_EXTENSION, BASIC_AUTH_ALIAS} & set(settings.items_of("rest.extension.classes")):
        if own:
            return Logins.of_file(own, USERS_FILE)
        if settings.text_or_none(LOGIN_CONFIG):
            raise _wrong(f"rest.extension.classes does not name {BASIC_AUTH_EXTENSION}, so nobody would be asked for a login")
        return None
    named = settings.text_or_none(LOGIN_CONFIG) or _of_system_property(environment.get("KAFKA_OPTS", ""))
    if not named:
        raise _wrong(f"the login configuration is missing; name a file with: {_EXAMPLE}")
    try:
        modules = parse_entries(Path(named).read_text(encoding="utf-8")).get(_ENTRY, ())
    except (OSError, UnicodeDecodeError) as e:
        raise _wrong(f"the file {named} cannot be read ({e}); it needs: {_EXAMPLE}") from e
    except JaasError as e:
        raise _wrong(f"the file {named} is not a login configuration: {e}; it needs: {_EXAMPLE}") from e
    if [module.class_name for module in modules] != [_MODULE] or not modules[0].options.get("file"):
        raise _wrong(f"the file {named} has no entry {_ENTRY} with the one module that this worker has; it needs: {_EXAMPLE}")
    if own:
        raise ConfigError({USERS_FILE: [f"there is a file of users already, in {named} ({LOGIN_CONFIG}); leave out one of them"]})
    return Logins.of_file(modules[0].options["file"], LOGIN_CONFIG)


def asks_for_logins(settings: Settings, logins: Logins | None) -> bool:
    """Return True if a login is required: a password or a token."""
    return logins is not None or bool(settings.text_or_none(ISSUER))


def _passwords(file: str, option: str) -> dict[str, str]:
    try:
        passwords = read_properties(Path(file))
    except DefiniteError as e:
        raise ConfigError({option: [f"its file of users cannot be used: {e}"]}) from e
    if not passwords or not all(passwords.values()):
        raise ConfigError({option: [f"the file {file} has no user, or one without a password; write a line user=password for each"]})
    for user, text in passwords.items():
        try:
            stored(text)
        except HashError as e:
            raise ConfigError({option: [f"in the file {file}, what {user} has {e}"]}) from None
    _warn_of_readers(file)
    return passwords


def _warn_of_readers(file: str) -> None:
    """Warn if other accounts can read the file.

    Does not refuse it: Kubernetes may mount secrets like that, in a container without other
    accounts.
    """
    found = Path(file).stat()
    mode = stat.S_IMODE(found.st_mode)
    if mode & stat.S_IROTH or (mode & stat.S_IRGRP and not _is_lent(found)):
        _log.warning(
            "other accounts of this machine may read the passwords of the rest interface",
            file=file,
            mode=f"{mode:04o}",
            remedy=f"chmod 600 {shlex.quote(file)}",
        )


def _is_lent(found: os.stat_result) -> bool:
    """Return True if another account owns the file and we read it by a group, as in a Pod."""
    return found.st_uid != os.geteuid() and found.st_gid in (os.getegid(), *os.getgroups())


def _of_system_property(options: str) -> str:
    try:
        words = shlex.split(options)
    except ValueError:
        return ""
    return next((word.removeprefix(_SYSTEM_PROPERTY) for word in reversed(words) if word.startswith(_SYSTEM_PROPERTY)), "")


def _wrong(text: str) -> ConfigError:
    return ConfigError({LOGIN_CONFIG: [text]})
