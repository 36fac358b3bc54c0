"""Headers of every answer under ``/ui``, also of refusals and of answers that the leader has given.

A browser then runs only scripts and styles of this worker's own files, shows the page in no frame,
and sends no address of it elsewhere (Content Security Policy Level 3). No view stays in a cache:
it has been made for one caller.
"""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dblog.rest.api import PAGE_ASSETS, is_of_page

POLICY = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
_ALWAYS = (
    (b"content-security-policy", POLICY.encode()),
    (b"referrer-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_VIEW = (b"cache-control", b"no-store")


class PageHeaders:
    """Adds the headers. Those of the configuration that have the same names are left out."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not is_of_page(scope["path"]):
            await self._app(scope, receive, send)
            return
        added = _ALWAYS if scope["path"].startswith(PAGE_ASSETS) else (*_ALWAYS, _VIEW)

        async def headed(message: Message) -> None:
            if message["type"] == "http.response.start":
                names = {name for name, _ in added}
                message = {**message, "headers": [*(each for each in message["headers"] if each[0].lower() not in names), *added]}
            await send(message)

        await self._app(scope, receive, headed)
