"""The web server of `das show`, on loopback: one address, a style sheet, and the release's own report.

No request names a path of the file system: the routes below are complete. DNS rebinding is refused: a page of another
site whose name points to this machine sends a Host header that is not ours. Requests without the token are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route

from flows.reports.show import rendering
from flows.reports.show.release_pages import REPORT, ReleasePages
from flows.reports.show.search import Several
from flows.reports.show.token_guard import HEADERS, TokenGuard, folder_of
from flows.reports.show.view import NotThere, Reading, refusing_malformed
from tasks.errors import Refused
from tasks.releases.pages import style
from tasks.releases.pages.text_table import as_csv
from tasks.releases.pages.words import capitalized
from tasks.releases.received import NotOfRelease, read_in

HOSTS = ["127.0.0.1", "localhost"]
REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; base-uri 'none'"
)
FILES = {"csv": "text/csv", "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"}
LONGEST = 200  # characters of one parameter
NAMED_BY = ("type", "in", "table", "by", "confidence")  # parameters in the name of a downloaded file


def warm(shown: ReleasePages) -> None:
    """Compile the templates, index the names and open the files, for fast first answers. Raises as `_respond`."""
    made = rendering.templates()
    for name in made.list_templates(extensions=["html"]):
        made.get_template(name)
    shown.index.vocabulary.begins("")  # indexes the names
    _respond(shown, {"view": "overview"})


def application(shown: ReleasePages, token: str) -> Starlette:
    """Return the web application of a release, for holders of the token."""
    sheet = style()

    async def page(request: Request) -> Response:
        asked = {name: value[:LONGEST] for name, value in request.query_params.items()}
        return await run_in_threadpool(_answer, shown, asked)

    async def style_sheet(_: Request) -> Response:
        return Response(sheet, media_type="text/css", headers=HEADERS)

    async def report(_: Request) -> Response:
        if REPORT not in shown.manifest["files"]:
            return PlainTextResponse("this release has no report", 404, HEADERS)
        try:
            content = await run_in_threadpool(read_in, shown.folder, REPORT)
        except NotOfRelease as fault:
            return PlainTextResponse(f"{fault}\n", 404, HEADERS)
        return Response(content, headers={**HEADERS, "Content-Security-Policy": REPORT_POLICY}, media_type="text/html")

    routes = [Route("/", page), Route("/static/style.css", style_sheet), Route(f"/{REPORT}", report)]
    guards = [
        Middleware(partial(TrustedHostMiddleware, allowed_hosts=HOSTS)),
        Middleware(partial(TokenGuard, token=token)),
    ]
    return Starlette(routes=[Mount(folder_of(token).rstrip("/"), routes=routes)], middleware=guards)


def _answer(shown: ReleasePages, asked: dict[str, str]) -> Response:
    try:
        with refusing_malformed(shown.folder):
            return _respond(shown, asked)
    except (NotThere, Refused) as error:
        return _message(shown, error, asked)


def _respond(shown: ReleasePages, asked: dict[str, str]) -> Response:
    """Return the view at an address, in the requested form. Raises NotThere, Refused or anything."""
    form, about = asked.get("format", "html"), shown.about(shown.confidence_in(asked))
    read = Reading(shown.view(asked), about)
    if form in FILES:
        parts = [asked.get("view", "overview"), *(asked.get(one) for one in NAMED_BY)]
        name = "-".join(filter(None, parts)).replace("/", "-")
        safe = "".join(letter for letter in name if letter.isascii() and (letter.isalnum() or letter in "-_")) or "view"
        content = rendering.workbook(read) if form == "xlsx" else as_csv(*read.table)
        saved = {"Content-Disposition": f'attachment; filename="{safe}.{form}"'}
        return Response(content, media_type=FILES[form], headers={**HEADERS, **saved})
    if form == "json":
        return JSONResponse(read.data, headers=HEADERS)
    address = rendering.address_of(asked)
    named = {"nameless": shown.nameless, "finds": shown.finds}
    text = rendering.html(read.view, about | named, address, f"{address}&format=csv")
    return Response(text, media_type="text/html", headers=HEADERS)


def _message(shown: ReleasePages, error: Exception, asked: Mapping[str, str]) -> Response:
    """Return why a view is missing; for an ambiguous name, links to the same view of each candidate."""
    if asked.get("format", "html") != "html":
        return PlainTextResponse(f"{error}\n", 404, HEADERS)
    view: dict[str, Any] = {
        "view": "message",
        "title": "Not found",
        "reading": "",
        "message": f"{capitalized(str(error))}.",
    }
    if isinstance(error, Several):
        title = "Which of the two?" if len(error.found) == 2 else "Which of these?"
        links = [
            (name, rendering.address_of({one: key if text == error.asked else text for one, text in asked.items()}))
            for key, name in error.found
        ]
        view |= {"title": title, "choices": links}
    about = {**shown.about(shown.confidence), "csv": False}
    return Response(rendering.html(view, about, "?view=overview", ""), 404, HEADERS, "text/html")
