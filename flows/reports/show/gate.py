"""The gate of the web server of `das show`: every user of the machine reaches its port, who knows the token gets in.

The token is in the address that `das show` prints, as with Jupyter. The first request with it is answered with a cookie
and sent on without it, so that it stays in no page's address. Browsers send a cookie to every port of a host, but only
below its path: the pages are below one that nobody else knows either.
"""

from __future__ import annotations

import secrets
from hashlib import sha256
from html import escape
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

TOKEN = "token"
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src data:; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
CLOSED = "Open the address that das show printed: it ends in a token.\n"


def new_token() -> str:
    """Return a token of 256 random bits."""
    return secrets.token_urlsafe(32)


def folder_of(token: str) -> str:
    """Return the path below which the pages are served, `/.../`; the token cannot be derived from it."""
    return f"/{sha256(token.encode()).hexdigest()[:16]}/"


def address_of(port: int, token: str) -> str:
    """Return the address to open, with the token."""
    return f"http://127.0.0.1:{port}{folder_of(token)}?{urlencode({TOKEN: token})}"


def cookie_of(port: int) -> str:
    """Return the name of the cookie: servers on two ports do not replace each other's."""
    return f"das-show-{port}"


class Gate:
    """Middleware that passes on the requests which bring the token in their cookie; all others get 403."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self.app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        answer: ASGIApp = PlainTextResponse(CLOSED, 403, HEADERS)
        if scope["type"] == "http":
            request = Request(scope)
            name = cookie_of(scope["server"][1])
            if self._is_token(request.query_params.get(TOKEN, "")):
                answer = self._entered(request, name)
            elif self._is_token(request.cookies.get(name, "")):
                answer = self.app
        elif scope["type"] == "lifespan":
            answer = self.app
        await answer(scope, receive, send)

    def _is_token(self, given: str) -> bool:
        return secrets.compare_digest(given.encode(errors="replace"), self._token.encode())

    def _entered(self, request: Request, cookie: str) -> Response:
        """Set the cookie and send the browser on to the address without the token.

        By a page, not by a redirection: a browser that comes from another site, as from the file that `das show` opens,
        would send no SameSite cookie along on that.
        """
        rest = [(name, value) for name, value in request.query_params.multi_items() if name != TOKEN]
        onward = f"./?{urlencode(rest)}" if rest else "./"
        page = f'<!doctype html><html lang="en"><title>das show</title><a href="{escape(onward)}">To the release</a>'
        answer = Response(page, headers={**HEADERS, "Refresh": f"0; url={onward}"}, media_type="text/html")
        answer.set_cookie(cookie, self._token, path=folder_of(self._token), httponly=True, samesite="strict")
        return answer
