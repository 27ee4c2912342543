"""The token guard of `das show`: every user of the machine can reach the server's port, but a request needs the token.

The token is in the address that `das show` prints, as with Jupyter. The answer to the first request with a token sets a
cookie and leads to the address without the token, so that no page's address contains it. Browsers send a cookie to
every port of a host, but only below the cookie's path; the path of the pages is therefore secret, too.
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
    """Return the path of the pages, `/.../`; the token cannot be derived from it."""
    return f"/{sha256(token.encode()).hexdigest()[:16]}/"


def address_of(port: int, token: str) -> str:
    """Return the address to open, with the token."""
    return f"http://127.0.0.1:{port}{folder_of(token)}?{urlencode({TOKEN: token})}"


def cookie_of(port: int) -> str:
    """Return the name of the cookie, by port: servers on two ports keep their cookies apart."""
    return f"das-show-{port}"


class TokenGuard:
    """Middleware that passes on requests with the token in their cookie, and answers all others with 403."""

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
        """Set the cookie and lead the browser to the address without the token.

        This uses a page because a browser that comes from another site, or from the file that `das show` opens, sends
        no SameSite cookie when it follows a redirection.
        """
        rest = [(name, value) for name, value in request.query_params.multi_items() if name != TOKEN]
        onward = f"./?{urlencode(rest)}" if rest else "./"
        page = f'<!doctype html><html lang="en"><title>das show</title><a href="{escape(onward)}">To the release</a>'
        answer = Response(page, headers={**HEADERS, "Refresh": f"0; url={onward}"}, media_type="text/html")
        answer.set_cookie(cookie, self._token, path=folder_of(self._token), httponly=True, samesite="strict")
        return answer
