"""PyMySQL's connection, with two refusals that it lacks: who asks for the password must be the server, or unable to read it.

Without TLS, whoever answers at the address could ask for the password in clear text (``mysql_clear_password``, MariaDB's ``dialog``), or hand out a key of
its own to encrypt it with (``caching_sha2_password`` and ``sha256_password``, MySQL manual 8.4.1.2). Connector/J, which Debezium uses, refuses the second
unless ``allowPublicKeyRetrieval`` is set; so does this.
"""

from __future__ import annotations

from typing import Any

from pymysql.connections import Connection

from dblog.errors import DefiniteError

_CLEAR = (b"mysql_clear_password", b"dialog")


class GuardedConnection(Connection):  # type: ignore[misc]  # PyMySQL has no types
    """A connection that sends its password to nobody who could read it without being the server."""

    def __init__(self, *, takes_public_key: bool, **arguments: Any) -> None:
        """``takes_public_key``: whether a key that came over the open connection may encrypt the password."""
        self._takes_public_key = takes_public_key
        self._public_key: bytes | None = None
        super().__init__(**arguments)

    def _process_auth(self, plugin_name: bytes | str, auth_packet: Any, *more: Any) -> Any:
        name = plugin_name if isinstance(plugin_name, bytes) else plugin_name.encode()
        if name in _CLEAR and not self._secure:
            message = (
                f"the server at {self.host}:{self.port} asks for the password in clear text ({name.decode()}) over a connection without TLS; set "
                "database.ssl.mode to required or stricter, or give the account another login method"
            )
            raise DefiniteError(message)
        return super()._process_auth(plugin_name, auth_packet, *more)

    @property
    def server_public_key(self) -> bytes | None:
        """The key that the password is encrypted with where there is no TLS. PyMySQL sets it to what the server sends."""
        return self._public_key

    @server_public_key.setter
    def server_public_key(self, key: bytes | None) -> None:
        if key is not None and not self._takes_public_key:
            message = (
                f"the server at {self.host}:{self.port} wants the password encrypted with a key that it sends over a connection without TLS, which anybody "
                "between could replace; set database.ssl.mode to required or stricter, or driver.allowPublicKeyRetrieval=true where the network is trusted"
            )
            raise DefiniteError(message)
        self._public_key = key
