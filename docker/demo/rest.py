"""Calls the worker's REST API, which is Kafka Connect's: posts a connector, reads its state.

Every call has a short limit and returns nothing while the worker is down. It is killed on purpose
here, and the caller asks again.
"""

from __future__ import annotations

import json
import ssl
from dataclasses import dataclass
from typing import Any

import httpx

TIMEOUT_S = 5.0

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""TLS context for plain HTTP. Without it httpx reads all certificate authorities for each request,
which takes 20 ms of CPU.
"""


class ConnectorFailedError(Exception):
    """Raised when the connector or its task is FAILED; the text is its trace."""


@dataclass(frozen=True, slots=True)
class DumpState:
    """The progress of the dump in the stored offset."""

    known: bool
    done: bool
    rows: int = 0


@dataclass(frozen=True, slots=True)
class Rest:
    """The REST API of a worker at ``url``."""

    url: str

    def healthy(self) -> bool:
        """Return True if the worker takes requests."""
        try:
            return httpx.get(f"{self.url}/health", timeout=TIMEOUT_S, verify=NO_TLS).is_success
        except httpx.HTTPError:
            return False

    def create(self, name: str, config: dict[str, str]) -> None:
        """Post the connector.

        Raise ConnectorFailedError with the worker's message if it is refused.
        """
        answer = httpx.post(f"{self.url}/connectors", json={"name": name, "config": config}, timeout=300, verify=NO_TLS)
        if answer.is_error:
            raise ConnectorFailedError(f"the worker refused the connector: {answer.text}")

    def delete(self, name: str) -> None:
        """Delete the connector; its offsets and topics stay."""
        httpx.delete(f"{self.url}/connectors/{name}", timeout=60, verify=NO_TLS).raise_for_status()

    def state(self, name: str) -> str:
        """Return the task's state, ``-`` if there is none.

        Raise ConnectorFailedError if it or the connector has FAILED.
        """
        status = self._get(f"/connectors/{name}/status")
        if status is None:
            return "-"
        parts = [status.get("connector", {}), *status.get("tasks", [])]
        for part in parts:
            if part.get("state") == "FAILED":
                raise ConnectorFailedError(part.get("trace") or "FAILED without a trace")
        return str(parts[1]["state"]) if len(parts) > 1 else "-"

    def dump(self, name: str) -> DumpState:
        """Return the progress of the dump by the worker's stored offsets."""
        answer = self._get(f"/connectors/{name}/offsets")
        for entry in (answer or {}).get("offsets", []):
            text = (entry.get("offset") or {}).get("dblog_dump")
            if text is not None:
                # It names the unfinished tables, and counts the rows of the others.
                dump = json.loads(text)
                tables, finished_rows = dump["tables"], dump.get("finished_rows", 0)
                done = all(table.get("done") for table in tables)
                return DumpState(known=True, done=done, rows=finished_rows + sum(table["rows"] for table in tables))
        return DumpState(known=False, done=False)

    def requested_dump(self, name: str, dump: str) -> Any:
        """Return a requested dump with its status and tables."""
        return self._get(f"/connectors/{name}/dumps/{dump}")

    def _get(self, path: str) -> Any:
        try:
            answer = httpx.get(f"{self.url}{path}", timeout=TIMEOUT_S, verify=NO_TLS)
        except httpx.HTTPError:
            return None
        return answer.json() if answer.is_success else None
