"""PyMySQL's connection with two additional refusals: of servers that ask for the password, and of
answers that are too large.

An impostor at the address could ask for the password in clear text (``mysql_clear_password``,
MariaDB's ``dialog``). Only a server whose certificate TLS has verified gets it. Without TLS the
impostor could also send its own key to encrypt it with (``caching_sha2_password`` and
``sha256_password``, MySQL manual 8.4.1.2). Connector/J, which Debezium uses, refuses that unless
``allowPublicKeyRetrieval`` is set, and so does this.

With unverified TLS the full login of these two methods sends the password to any impostor. MySQL
servers ask for it after each restart and verify nothing by default, so it is allowed there.
MariaDB's accounts use methods that never send the password, so there it is refused.

An impostor could also send without end, and PyMySQL would keep everything: packets joined to one,
rows, column definitions. So the memory of everything is estimated before it is read, and the
connection is cut if an answer exceeds the size that its statement can have.
"""

from __future__ import annotations

import ssl
from typing import Any

from pymysql.connections import Connection
from pymysql.protocol import FieldDescriptorPacket, MysqlPacket

from dblog.dialects.answer_budget import AnswerBudget
from dblog.dialects.mysql.wire.protocol import COLUMNS_MAX
from dblog.errors import DefiniteError, TransientError

LOGIN_BYTES_MAX = 64 * 1024
"""The most bytes that a server sends before we are logged in. A greeting has a hundred bytes, a
public key five hundred.
"""

ANSWER_BYTES_MAX = 256 << 20
"""The most memory of an answer, in bytes: the files of a log, the variables and foreign keys of a
server.
"""

CATALOG_BYTES_MAX = 2 << 30
"""The most memory of a database's tables, columns or indexes, in bytes. 15 000 tables of 100
columns take 1.1 GiB, measured and by the estimates below.
"""

_PACKET_BYTES, _VALUE_BYTES = 64, 48
"""Python's overhead for a packet with a row, and for each value in it, in bytes (measured: 742
bytes for a row of COLUMNS that has 150).
"""
_BUDGET_STEP_BYTES = 1 << 20
_COLUMNS_MAX = 2 * COLUMNS_MAX
"""Columns of an answer: a table's columns and its star (sql.readable)."""

_CLEAR = (b"mysql_clear_password", b"dialog")
_SHA256 = "sha256_password"
_VERIFIED = "set database.ssl.mode to a mode that verifies the certificate (verify_ca, verify_identity; MariaDB: verify-ca, verify-full)"


def no_server(address: str) -> DefiniteError:
    """Return the error for a peer that does not speak the protocol."""
    return DefiniteError(
        f"the program that answers at {address} is not a MySQL or MariaDB server; check database.hostname and database.port"
    )


class GuardedConnection(Connection):  # type: ignore[misc]  # PyMySQL has no types
    """A connection that protects its password from impostors and limits the size of answers."""

    def __init__(self, *, takes_public_key: bool, trusts_tls: bool = True, budget: AnswerBudget | None = None, **arguments: Any) -> None:
        """Prepare a connection, without connecting.

        ``takes_public_key``: a key received over the open connection may encrypt the password.
        ``trusts_tls``: the full login of ``caching_sha2_password`` and ``sha256_password`` may use
        TLS with an unverified certificate. ``budget``: a limit shared with other connections.
        """
        self._takes_public_key = takes_public_key
        self._trusts_tls = trusts_tls
        self._encrypted = False
        self._auth_plugin_name: Any = ""
        self._public_key: bytes | None = None
        self._budget = budget
        self._budget_taken = self._budget_used = 0
        self._logged_in = False
        self.answer_bytes_max = ANSWER_BYTES_MAX
        self._answer_bytes = 0
        self._answer_columns = 0
        super().__init__(**arguments)

    def connect(self, sock: Any = None) -> None:
        """Connect and log in."""
        super().connect(sock)
        self._logged_in = True

    def _process_auth(self, plugin_name: bytes | str, auth_packet: Any, *more: Any) -> Any:
        name = plugin_name if isinstance(plugin_name, bytes) else plugin_name.encode()
        if name in _CLEAR and not self._is_verified:
            message = (
                f"the server at {self.host}:{self.port} asks for the password in clear text ({name.decode()}) over {self._how_open}; {_VERIFIED}, or give the "
                "account another login method"
            )
            raise DefiniteError(message)
        return super()._process_auth(plugin_name, auth_packet, *more)

    def _get_server_information(self) -> None:
        super()._get_server_information()
        if self._auth_plugin_name == _SHA256 and not self._trusts_tls:
            # Otherwise its greeting alone would get the server the password in the first packet;
            # now it has to ask.
            self._auth_plugin_name = ""

    @property
    def _is_verified(self) -> bool:
        return self._encrypted and self.ctx.verify_mode == ssl.CERT_REQUIRED

    @property
    def _how_open(self) -> str:
        return "TLS whose certificate is not verified, so anybody may have answered" if self._encrypted else "a connection without TLS"

    @property
    def _secure(self) -> bool:
        """True if a full login may send the password through the connection. PyMySQL reads it only
        in such a login, and sets it when TLS has begun.
        """
        if self._encrypted and not self._is_verified and not self._trusts_tls:
            message = f"the server at {self.host}:{self.port} asks for the password itself over {self._how_open}; {_VERIFIED}, or give the account another"
            raise DefiniteError(f"{message} login method")
        return self._encrypted

    @_secure.setter
    def _secure(self, encrypted: bool) -> None:
        self._encrypted = encrypted

    @property
    def server_public_key(self) -> bytes | None:
        """The key that encrypts the password if there is no TLS. PyMySQL sets it to the key that
        the server sends.
        """
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

    # -- limits on what is read --------------------------------------------------------------------

    def _execute_command(self, command: int, sql: str | bytes) -> None:
        self._answer_bytes = self._answer_columns = 0
        super()._execute_command(command, sql)

    def _read_packet(self, packet_type: Any = MysqlPacket) -> Any:
        if packet_type is FieldDescriptorPacket:
            self._answer_columns += 1
            if self._answer_columns > _COLUMNS_MAX:
                self._force_close()
                raise no_server(f"{self.host}:{self.port}")
        else:
            self._weigh(_PACKET_BYTES + _VALUE_BYTES * self._answer_columns)
        return super()._read_packet(packet_type)

    def _read_bytes(self, num_bytes: int) -> Any:
        self._weigh(num_bytes)
        return super()._read_bytes(num_bytes)

    def _weigh(self, count: int) -> None:
        """Count bytes that are about to be read; close the connection and raise if they are too
        many.
        """
        self._answer_bytes += count
        if not self._logged_in:
            if self._answer_bytes > LOGIN_BYTES_MAX:
                self._force_close()
                raise no_server(f"{self.host}:{self.port}")
            return
        if self._answer_bytes > self.answer_bytes_max:
            self._force_close()
            message = (
                f"the server at {self.host}:{self.port} answers a statement with more than {self.answer_bytes_max >> 20} MiB, which is more than its kind of "
                "answer can have; check that database.hostname and database.port lead to a MySQL or MariaDB server"
            )
            raise DefiniteError(message)
        self._budget_used += count
        if self._budget is not None and self._budget_used > self._budget_taken:
            step = max(_BUDGET_STEP_BYTES, self._budget_used - self._budget_taken)
            if not self._budget.take(step):
                self._force_close()
                message = (
                    f"the answers of databases to the running checks take more than {self._budget.bytes_max >> 20} MiB, so the check of "
                    f"{self.host}:{self.port} was given up; try again when fewer checks run"
                )
                raise TransientError(message)
            self._budget_taken += step

    def release(self) -> None:
        """Give the budget back, since the answers are no longer kept."""
        if self._budget is not None:
            taken, self._budget_taken, self._budget_used = self._budget_taken, 0, 0
            self._budget.give_back(taken)
