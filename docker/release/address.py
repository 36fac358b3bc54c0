"""The address of a registry, as REGISTRY names it: host, port and a path in front of all repositories."""

from __future__ import annotations

import re
from dataclasses import dataclass

from stack.errors import StackError

_ADDRESS = re.compile(
    r"(?:(?P<scheme>https?|oci)://)?(?P<host>(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9a-f:]+\])(?::[0-9]{1,5})?)"
    r"(?P<path>(?:/[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*)*)/?"
)
_LOOPBACK = re.compile(r"(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d+)?")
_DOCKER_HUB = "registry-1.docker.io"


@dataclass(frozen=True, slots=True)
class Address:
    """A place in a registry."""

    host: str
    """Host, and port if it is not 443."""
    path: str
    """Path in front of the repositories, without slashes at its ends; may be empty."""
    scheme: str
    """`https`; `http` on the loopback interface alone."""

    @classmethod
    def parse(cls, text: str) -> Address:
        """Parse `host/path`. Raise StackError with the reason if it is not one."""
        match = _ADDRESS.fullmatch(text)
        if match is None:
            shown = "an address with a login in it" if "@" in text else repr(text)
            raise StackError(
                f"REGISTRY is {shown}, and it has to be host/path, in small letters, such as ghcr.io/example/dblog or 127.0.0.1:5000/dblog."
                " A login goes into docker's configuration or the environment"
            )
        is_loopback = _LOOPBACK.fullmatch(match["host"]) is not None
        if match["scheme"] == "http" and not is_loopback:
            raise StackError(
                f"REGISTRY={text} asks for a connection without TLS, which is taken on the loopback interface alone:"
                " whoever sees the network would get the login. Remove http://"
            )
        scheme = "https" if match["scheme"] == "https" or not is_loopback else "http"
        return cls(match["host"], match["path"].strip("/"), scheme)

    @property
    def is_plain(self) -> bool:
        """True if the registry is asked without TLS."""
        return self.scheme == "http"

    @property
    def name(self) -> str:
        """Host and path, as an image's name begins."""
        return f"{self.host}/{self.path}".rstrip("/")

    @property
    def url(self) -> str:
        """Address of the registry's API."""
        return f"{self.scheme}://{_DOCKER_HUB if self.host in {'docker.io', 'index.docker.io'} else self.host}/v2/"

    def repository(self, name: str) -> str:
        """Return the name of a repository below the path, as the API has it."""
        return f"{self.path}/{name}" if self.path else name
