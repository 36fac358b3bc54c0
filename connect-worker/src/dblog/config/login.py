"""Who may use the REST interface: Kafka Connect's basic authentication, with its extension class, its login configuration and its file of users.

``rest.extension.classes`` names the extension; ``dblog.rest.login.config``, or a JVM's ``-Djava.security.auth.login.config`` in ``KAFKA_OPTS``, names the login
configuration, whose entry ``KafkaConnect`` has the PropertyFileLoginModule with the file of users (``user=password``). Source: Kafka's documentation of Connect
(REST extensions) and that module's class comment. One difference: Kafka takes an empty file of users for a permission to everybody; here it is refused.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import shlex
import stat
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

import structlog

from dblog.config.jaas import JaasError, parse_entries
from dblog.config.options import Settings
from dblog.config.properties import read_properties
from dblog.errors import ConfigError, DefiniteError

_log = structlog.get_logger("dblog.config")

BASIC_AUTH_EXTENSION = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
BASIC_AUTH_ALIAS = "BasicAuthSecurityRestExtension"
LOGIN_CONFIG = "dblog.rest.login.config"
_ENTRY = "KafkaConnect"
_MODULE = "org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule"
_SYSTEM_PROPERTY = "-Djava.security.auth.login.config="
_EXAMPLE = f'{_ENTRY} {{ {_MODULE} required file="/path/users.properties"; }};'


class Refusal(StrEnum):
    """Why a login is refused: for the worker's log, and never for its client."""

    NONE_GIVEN = "no login"
    UNREADABLE = "not a basic login"
    NO_SUCH_USER = "no such user"
    WRONG_PASSWORD = "wrong password"  # noqa: S105  a reason


class Logins:
    """The users and their passwords."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._digests = {user: _digest(password) for user, password in passwords.items()}

    def refusal(self, authorization: str) -> Refusal | None:
        """Why the header ``Authorization`` lets nobody in; None if it has a user's name and password. Takes as long for a user that there is not."""
        scheme, _, encoded = authorization.strip().partition(" ")
        if not scheme:
            return Refusal.NONE_GIVEN
        if scheme.lower() != "basic":
            return Refusal.UNREADABLE
        try:
            user, colon, password = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
        except (binascii.Error, ValueError):
            return Refusal.UNREADABLE
        known = self._digests.get(user)
        right = hmac.compare_digest(known or _NOBODY, _digest(password))
        if not colon:
            return Refusal.UNREADABLE
        if known is None:
            return Refusal.NO_SUCH_USER
        return None if right else Refusal.WRONG_PASSWORD


def _digest(password: str) -> bytes:
    return hashlib.sha256(password.encode()).digest()


_NOBODY = bytes(32)


def read_logins(settings: Settings, environment: Mapping[str, str]) -> Logins | None:
    """The users, None when no login is asked for. ConfigError for files that do not name them: nobody is let in by mistake."""
    if not {BASIC_AUTH_EXTENSION, BASIC_AUTH_ALIAS} & set(settings.items_of("rest.extension.classes")):
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
        raise _wrong(f"the file {named} is no login configuration: {e}; it needs: {_EXAMPLE}") from e
    if [module.class_name for module in modules] != [_MODULE] or not modules[0].options.get("file"):
        raise _wrong(f"the file {named} has no entry {_ENTRY} with the one module that this worker has; it needs: {_EXAMPLE}")
    file = modules[0].options["file"]
    try:
        passwords = read_properties(Path(file))
    except DefiniteError as e:
        raise _wrong(f"its file of users cannot be used: {e}") from e
    if not passwords or not all(passwords.values()):
        raise _wrong(f"the file {file} has no user, or one without a password; write a line user=password for each")
    _warn_of_readers(file)
    return Logins(passwords)


def _warn_of_readers(file: str) -> None:
    """No refusal: Kubernetes mounts its secrets so, in a container that has no other accounts."""
    mode = stat.S_IMODE(Path(file).stat().st_mode)
    if mode & (stat.S_IRGRP | stat.S_IROTH):
        _log.warning(
            "other accounts of this machine may read the passwords of the rest interface",
            file=file,
            mode=f"{mode:04o}",
            remedy=f"chmod 600 {shlex.quote(file)}",
        )


def _of_system_property(options: str) -> str:
    try:
        words = shlex.split(options)
    except ValueError:
        return ""
    return next((word.removeprefix(_SYSTEM_PROPERTY) for word in reversed(words) if word.startswith(_SYSTEM_PROPERTY)), "")


def _wrong(text: str) -> ConfigError:
    return ConfigError({LOGIN_CONFIG: [text]})
