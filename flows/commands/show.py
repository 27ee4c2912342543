"""`das show`: look at a release, in the browser, in the terminal, or as a copy of its pages."""

from __future__ import annotations

import shlex
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Annotated

import typer

from flows.execution.systems import kind_of_release
from flows.reports.show.view import RELEASED, Confidence, NotThere, Reading, refusing_malformed
from flows.reports.terminal import Format, FormatOption, err, is_json, labelled, report
from tasks.errors import Refused
from tasks.releases.manifest import MANIFEST, read_manifest, require_release
from tasks.releases.pages.text_table import TextTable
from tasks.releases.received import NotOfRelease

if TYPE_CHECKING:
    from flows.reports.show.release_pages import ReleasePages
    from flows.reports.show.scope import Scope
    from flows.reports.show.search import Several

PORT = 8418


def show(
    release: Annotated[Path, typer.Argument(metavar="RELEASE", help="A release: a folder with a manifest.json.")],
    region: Annotated[
        str | None, typer.Option(help="In the terminal: a region by name, id or TYPE/ID, as COUNTY/44007.")
    ] = None,
    iteration: Annotated[
        str | None, typer.Option(help="In the terminal: a characteristic iteration by name or code.")
    ] = None,
    boundaries: Annotated[
        list[Path] | None,
        typer.Option(
            help="Shapes of regions for maps: GeoJSON, GeoPackage or a zipped shapefile with GEOID; may be repeated."
        ),
    ] = None,
    table: Annotated[
        str | None, typer.Option(help="A table of the release; in the terminal with --region of a TopDown geounit.")
    ] = None,
    confidence: Annotated[
        str | None, typer.Option(help="Confidence of the margins in percent, 50 to 99.9, as 90. Default: 95.")
    ] = None,
    export: Annotated[Path | None, typer.Option(help="Write the pages into a new folder.")] = None,
    scope: Annotated[str | None, typer.Option(help="One state (`44`) or one level (`county-2`) alone.")] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on this machine; 0 takes any free one.")] = PORT,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
    form: FormatOption = Format.table,
) -> None:
    """Look at a release: find a region or an iteration, and see what was published, in what detail, with which margins.

    Serves a page on this machine alone until Ctrl-C, to whoever has the token in the address that it prints.
    With `--region`, `--iteration` or `--table` one table is printed instead, with `--json` as data; with `--export` the
    pages are written out: a folder for any web server, or to open as it is.

    **Example:** `das show release/us --region Nebraska --iteration 2014`
    """
    from flows.reports.show.scope import Scope
    from flows.reports.show.search import Several

    named = region, iteration, table
    try:
        with refusing_malformed(release):
            at = Confidence.named(confidence) if confidence is not None else RELEASED
            shown = open_release(release, Scope.named(scope) if scope else None, boundaries or (), at)
            if export is not None:
                _write(shown, export)
                return
            if named != (None, None, None) or is_json() or form is not Format.table:
                _print(shown, named, form)
                return
            from flows.reports.show.application import warm

            warm(shown)
    except Several as error:
        given = {"--region": region, "--iteration": iteration}
        raise Refused(f"{error}, as {' or '.join(_commands(release, given, error))}") from None
    except NotThere as error:
        raise Refused(str(error)) from None
    _serve(shown, port, browser=browser)


def _commands(release: Path, given: Mapping[str, str | None], error: Several) -> Iterator[str]:
    """Yield the command for each of several regions or iterations with the same name."""
    for key, _ in error.found:
        words = [word for name, text in given.items() if text for word in (name, key if text == error.asked else text)]
        yield f"`{shlex.join(['das', 'show', str(release), *words])}`"


def open_release(
    folder: Path, scope: Scope | None = None, boundaries: Sequence[Path] = (), confidence: Confidence = RELEASED
) -> ReleasePages:
    """Return the pages of a release; confidence: the default confidence of margins.

    Raises Refused if the folder is not a release, or its system is unknown to this version. A malformed release raises
    other exceptions, for `refusing_malformed` to handle.
    """
    from flows.reports.show.maps.boundaries import places_of
    from flows.reports.show.scope import Scope

    require_release(folder)
    try:
        manifest = read_manifest(folder)
    except NotOfRelease as fault:
        raise Refused(f"{folder}: {fault}") from None
    if not all(isinstance(manifest.get(key), str) for key in ("release", "run")):
        raise Refused(f"{folder / MANIFEST} is not the manifest of a release: it does not say what, or of which run")
    kind = kind_of_release(manifest["release"])
    if kind is None:
        raise Refused(f"{folder} is a kind of release that das show does not know: {manifest['release']}")
    pages: ReleasePages = kind.part("page")(folder, manifest, scope or Scope())
    pages.places, pages.confidence = places_of(folder, manifest, boundaries), confidence
    return pages


def _write(shown: ReleasePages, folder: Path) -> None:
    """Write a copy of the pages into a folder."""
    from flows.reports.show.export import export

    _check(shown)
    sizes = export(shown, folder).values()
    what = f"{len(sizes):,} files, {sum(sizes) / 1e6:.1f} MB"
    public = "" if "NOT_PRIVATE" in shown.manifest else f", or put {folder} on a web server"
    err.print(f"wrote {what}: open {folder / 'index.html'}{public}", soft_wrap=True)


def _print(shown: ReleasePages, named: tuple[str | None, str | None, str | None], form: Format) -> None:
    """Print the table that the options name."""
    from flows.reports.show.terminal import table

    _check(shown)
    asked = {**shown.address(*named), "format": form.value}
    read = Reading(shown.view(asked), shown.about(shown.confidence))
    if form is Format.csv:
        columns, rows = read.table
        cells = [["" if value is None else str(value) for value in row] for row in rows]
        text = TextTable(read.view.title, columns, cells)
    else:
        text = table(read)
    report(read.data, [text], form)


def _check(shown: ReleasePages) -> None:
    """Check the files of a release, and warn if one was changed."""
    shown.check()
    if shown.changed:
        message = f"{'; '.join(shown.changed)}. Do not rely on any number in it."
        err.print(labelled("THIS RELEASE WAS CHANGED after it was made:", message), soft_wrap=True)


def _serve(shown: ReleasePages, port: int, *, browser: bool) -> None:
    """Serve the pages until Ctrl-C."""
    import uvicorn

    from flows.reports.show.application import application
    from flows.reports.show.token_guard import address_of, new_token

    try:
        listening = socket.create_server(("127.0.0.1", port))
    except OSError as error:
        raise Refused(
            f"port {port} cannot be used ({error.strerror}); choose another with --port, 0 for any free one"
        ) from None
    token = new_token()
    address = address_of(listening.getsockname()[1], token)
    with ExitStack() as stack:
        stack.enter_context(listening)
        threading.Thread(target=_check, args=[shown], daemon=True).start()  # so that a reader need not wait
        release = f"{shown.manifest['release']}, run {shown.manifest['run']}"
        err.print(f"{release}: {address} (Ctrl-C ends it)", soft_wrap=True)
        settings = uvicorn.Config(application(shown, token), log_level="warning", access_log=False, server_header=False)
        if browser:
            stack.enter_context(_opened(address))
        with suppress(KeyboardInterrupt):
            uvicorn.Server(settings).run(sockets=[listening])


@contextmanager
def _opened(address: str) -> Iterator[None]:
    """Open an address in a browser by way of a private file, because every user can see the arguments of processes."""
    import webbrowser

    with NamedTemporaryFile("w", encoding="utf-8", prefix="das-show-", suffix=".html") as file:  # 0600
        file.write(f'<!doctype html><title>das show</title><meta http-equiv="refresh" content="0; url={address}">')
        file.flush()
        threading.Thread(target=webbrowser.open, args=[Path(file.name).as_uri()], daemon=True).start()
        yield
