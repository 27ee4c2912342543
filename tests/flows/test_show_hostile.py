"""Releases and files of names that somebody else made, and other users of the machine: `das show` and other readers.

A line refuses what is wrong; no link leads out of a release, nothing steers a terminal, nobody without the token reads.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from http.client import HTTPConnection
from io import StringIO
from itertools import islice
from pathlib import Path
from time import process_time
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit

import e2e_runs
import pytest
from hostile_releases import STEERING, change_manifest, change_table, copy_of, replace
from rich.table import Table
from rich.text import Text
from selenium.webdriver.support.ui import WebDriverWait
from show_release import TOKEN, entered, serving, urlopen

from flows.commands.show import _opened, open_release
from flows.reports.show.application import _answer, warm
from flows.reports.show.view import NotThere, refusing_malformed
from flows.reports.terminal import PlainConsole, labelled
from tasks.errors import Refused
from tasks.releases.manifest import MANIFEST, read_manifest
from tasks.releases.release_database import ReleaseDatabase
from tests.flows.conftest import Das, Refuse, processor_seconds

RELEASES = ("released", "top_down_released", "bottom_up_released")
ELSEWHERE = "a line of the curator's own"


@pytest.fixture
def release(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of the release that this fixture's parameter names, of the Detailed DHC-A if it has none."""
    return copy_of(request.getfixturevalue(getattr(request, "param", "released")), tmp_path / "sent")


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file outside of every release."""
    (tmp_path / "state").mkdir()
    (tmp_path / "state/secret").write_text(ELSEWHERE)
    return tmp_path / "state/secret"


# -- who is answered --------------------------------------------------------------------------------------------------


def asked(page: str, path: str, **headers: str) -> tuple[int, Any, str]:
    """Ask the server of a page for a path as it stands; returns status, headers and text."""
    with closing(HTTPConnection(urlsplit(page).netloc)) as connection:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()


def test_nobody_without_the_token_is_answered(page: str) -> None:
    folder, good = urlsplit(page).path, entered(page)
    for path in ("", "?view=overview", "?format=json", "report.html", "static/style.css", "manifest.json"):
        for place in ("/", folder):
            assert asked(page, place + path)[0] == 403
    wrong = ("", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "%C3%BC", "%00")
    assert {asked(page, f"{folder}?token={token}")[0] for token in wrong} == {403}
    cookie = good["Cookie"]
    wrongs = (cookie[:-1], cookie.replace("das-show-", "das-show-1"), cookie + "\xfc", "das-show=1", f"token={TOKEN}")
    assert {asked(page, folder, Cookie=value)[0] for value in wrongs} == {403}
    assert asked(page, folder, **good)[0] == 200
    assert asked(page, folder, **good, Host="evil.example")[0] == 400
    assert asked(page, f"{folder}?token={TOKEN}", Host="evil.example")[0] == 400


def test_the_token_is_in_no_address_but_the_first(page: str) -> None:
    status, headers, text = asked(page, f"{urlsplit(page).path}?token={TOKEN}&view=find&q=%22%3E%0A%3Cb%3E")
    assert (status, headers["Refresh"]) == (200, "0; url=./?view=find&q=%22%3E%0A%3Cb%3E")
    assert TOKEN not in headers["Refresh"] + text + urlsplit(page).path
    cookie = headers["Set-Cookie"]
    assert cookie.startswith(entered(page)["Cookie"] + ";")
    assert {"HttpOnly", "SameSite=strict", f"Path={urlsplit(page).path}"} <= set(cookie.split("; "))
    for path in ("", "?view=nowhere", "report.html", "static/style.css", f"?token={TOKEN}", "?token=wrong"):
        _, headers, text = asked(page, urlsplit(page).path + path, **entered(page))
        assert headers["Referrer-Policy"] == "no-referrer"
        assert TOKEN not in text


def served_once(
    release: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> tuple[str, list[str], str]:
    """`das show` until its server would run: what it prints, what the browser opens, and the text of that file."""
    opened: list[str] = []
    there = threading.Event()
    monkeypatch.setattr("webbrowser.open", lambda address: (opened.append(address), there.set()))
    texts: list[str] = []

    def run(_: object, sockets: Any) -> None:
        assert there.wait(10)
        path = Path(urlsplit(opened[0]).path)
        assert path.stat().st_mode & 0o777 == 0o600
        texts.append(path.read_text(encoding="utf-8"))

    monkeypatch.setattr("uvicorn.Server.run", run)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    assert e2e_runs.das("show", release, "--port", 0) == 0
    assert not Path(urlsplit(opened[0]).path).exists()
    return capfd.readouterr().err, opened, texts[0]


def test_the_address_is_for_the_user_alone(
    released: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], no_umask: None
) -> None:
    said = [served_once(released, monkeypatch, capfd) for _ in range(2)]
    tokens = set()
    for printed, opened, text in said:
        address = next(word for word in printed.split() if word.startswith("http://127.0.0.1:"))
        tokens.add(token := address.partition("?token=")[2])
        assert len(token) > 40
        assert f"url={address}" in text
        assert len(opened) == 1
        assert token not in opened[0]  # the arguments of a process are everybody's to read
    assert len(tokens) == 2


def test_a_browser_comes_in_by_the_file_that_is_opened(
    page: str, chromium: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a file to the address with the token, and on to the page: a Strict cookie goes along."""
    chromium.get(page)
    assert "ends in a token" in chromium.page_source
    address = f"{page}?token={TOKEN}&view=find"
    monkeypatch.setattr("webbrowser.open", lambda file: chromium.get(file))
    with _opened(address):
        WebDriverWait(chromium, 20).until(lambda one: one.current_url == f"{page}?view=find")
    assert chromium.title == "Find"


@pytest.mark.usefixtures("no_umask")
def test_what_a_database_of_exact_counts_spills_is_its_owners_alone(tmp_path: Path) -> None:
    with ReleaseDatabase(memory_limit="20MB", threads=1) as database:
        ((folder,),) = database.execute("SELECT current_setting('temp_directory')").fetchall()
        query = "SELECT * FROM (SELECT range, hash(range) AS h, hash(h) AS i FROM range(3000000)) ORDER BY h"
        answer = database.execute(query)
        assert Path(folder).stat().st_mode & 0o777 == 0o700
        assert list(Path(folder).iterdir())
        del answer
    assert not Path(folder).exists()


@pytest.mark.usefixtures("no_umask")
def test_a_copy_of_exact_counts_is_its_owners_alone(released: Path, tmp_path: Path) -> None:
    truth = copy_of(released, tmp_path / "truth")
    manifest = read_manifest(truth)
    replace(truth / MANIFEST, json.dumps(manifest | {"NOT_PRIVATE": "NOT PRIVATE"}).encode())
    for place, mode in ((truth, 0o700), (released, 0o777)):
        copied = tmp_path / f"copy of {place.name}"
        assert e2e_runs.das("show", place, "--export", copied, "--scope", "usa-1") == 0
        assert copied.stat().st_mode & 0o777 == mode


# -- where a release leads --------------------------------------------------------------------------------------------


def linked(secret: Path, release: Path, name: str) -> None:
    (release / name).unlink(missing_ok=True)
    (release / name).symlink_to(secret)


def linked_folder(secret: Path, release: Path, name: str) -> None:
    (release / name).rename(secret.parent / "moved")
    (release / name).symlink_to(secret.parent / "moved")


def named(_: Path, release: Path, name: str) -> None:
    """Name another file in the manifest, with the digest that it has where that can be taken."""
    manifest = read_manifest(release)
    manifest["files"][name] = "0" * 64
    replace(release / MANIFEST, json.dumps(manifest).encode())


def sparse(_: Path, release: Path, name: str) -> None:
    (release / name).unlink()
    (release / name).touch()
    os.truncate(release / name, 3 << 30 if name.endswith((".json", ".html")) else 65 << 20)


def piped(_: Path, release: Path, name: str) -> None:
    (release / name).unlink()
    os.mkfifo(release / name)


# A release, what is done to it, and what is said of it; True where das show refuses it, and does not only warn.
slow = partial(pytest.param, marks=pytest.mark.slow)
LEADS = [
    ("few_levels", linked, "report.html", "report.html is a link", False),
    ("few_levels", linked, "names.csv", "names.csv is", True),
    slow("few_levels", linked, "tabulated/regions.csv", "tabulated/regions.csv is a link", True),
    ("few_levels", linked, "parquet/t1/usa-1.parquet", "parquet/t1/usa-1.parquet is a link", True),
    ("few_levels", linked, "manifest.json", "manifest.json is a link", True),
    ("few_levels", linked, "more", "more does not belong to this release", False),
    ("few_levels", linked_folder, "parquet", "parquet is a link, or not a folder", True),
    ("few_levels", named, "/proc/self/mem", "'/proc/self/mem' is outside of the release", False),
    ("few_levels", named, "../state/secret", "'../state/secret' is outside of the release", False),
    slow("few_levels", named, "t1/../../state/secret", "is outside of the release", False),
    ("few_levels", named, "\x1b[2J", "is outside of the release", False),
    ("few_levels", named, "t1", "t1 is a link, a folder or a device, not a file", False),
    ("few_levels", piped, "t1/usa-1.csv", "t1/usa-1.csv is a link, a folder or a device", True),
    ("few_levels", piped, "manifest.json", "manifest.json is a link, a folder or a device", True),
    ("few_levels", sparse, "manifest.json", "manifest.json has 3,221,225,472 bytes, more than the 33,554,432", True),
    slow("few_levels", sparse, "report.html", "report.html has 3,221,225,472 bytes", False),
    slow("few_levels", sparse, "tabulated/iterations.csv", "iterations.csv", True),
    ("top_down_released", linked, "histograms/units/State/46.parquet", "State/46.parquet is a link", True),
    slow("top_down_released", sparse, "measurements/design.json", "design.json has 3,221,225,472 bytes", False),
    ("bottom_up_released", linked, "parquet/total.parquet", "total.parquet is a link", True),
]


@pytest.mark.parametrize(("release", "change", "name", "fault", "refuses"), LEADS, indirect=["release"])
def test_nothing_leads_out_of_a_release(
    release: Path,
    secret: Path,
    das: Das,
    change: Callable[[Path, Path, str], None],
    name: str,
    fault: str,
    refuses: bool,
    tmp_path: Path,
) -> None:
    change(secret, release, name)
    with processor_seconds(20, name):
        code, out, err = das("check", release)
        assert (code, fault in out + err) == (1, True), out + err
        assert ELSEWHERE not in out + err
        code, out, err = das("show", release, "--json")
        assert ELSEWHERE not in out + err
        assert code == int(refuses), err
        assert (fault.partition(" is ")[0] in err) == (name != "more"), err
        if refuses:
            assert das("show", release, "--export", tmp_path / "copy")[0] == 1
            return
        with serving(release) as address:
            assert ELSEWHERE not in urlopen(address).read().decode()
            with suppress(HTTPError):
                assert ELSEWHERE not in urlopen(f"{address}report.html").read().decode()


@pytest.mark.parametrize("release", ["top_down_released"], indirect=True)
@pytest.mark.parametrize(
    ("where", "words"),
    [
        (("states",), ["../../../state", "23"]),
        slow(("products", "persons", "geounits"), {"../../../state": 1}),
        slow(("products",), {"../persons": {"geounits": {"Block": 1}}}),
    ],
)
def test_no_level_or_state_leads_out_of_a_release(
    release: Path, refused: Refuse, das: Das, where: tuple[str, ...], words: Any
) -> None:
    manifest = parent = read_manifest(release)
    for name in where[:-1]:
        parent = parent[name]
    parent[where[-1]] = words
    replace(release / MANIFEST, json.dumps(manifest).encode())
    assert "is the name of no state, level or family" in refused("", "check", release)
    assert das("show", release, "--json")[0] in (0, 1)


def test_settings_are_read_of_no_manifest_that_leads_away(release: Path, secret: Path, refused: Refuse) -> None:
    for change, said in ((linked, "is a link"), (sparse, "3,221,225,472 bytes"), (piped, "is a link, a folder")):
        change(secret, release, "manifest.json")
        for words in (("compare", release), ("tune", release / "manifest.json")):
            assert ELSEWHERE not in refused(said, *words)


# -- what it may hold -------------------------------------------------------------------------------------------------


def steers(text: str) -> bool:
    """Whether a text holds anything that a terminal would obey, or that reorders a line."""
    return any(not one.isprintable() and one != "\n" for one in text)


def test_no_text_of_others_steers_the_terminal(release: Path, das: Das, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = read_manifest(release)
    assert steers(STEERING)
    for change in (
        {"files": {**manifest["files"], STEERING: "0"}},
        {"run": STEERING, "SYNTHETIC": f"{STEERING}\nrefused: nothing"},
        {"release": STEERING},
        {"levels": {STEERING: {}}},
        {"spent": {**manifest["spent"], "relations": [{"relation": "x", "sentence": STEERING, "exact": "1"}]}},
    ):
        replace(release / MANIFEST, json.dumps(manifest | change).encode())
        for words in (["check"], ["show", "--region", "Alabama"]):
            _, out, err = das(words[0], release, *words[1:])
            assert not steers(out + err), (change, words)
            assert err.count("refused:") <= 1
    names = "REGION_TYPE|REGION_ID|NAME\nSTATE|\x1b[2J|x\n"
    replace(release / "names.csv", names.encode())
    replace(release / MANIFEST, json.dumps(manifest).encode())
    for form in ("table", "csv"):
        assert not steers("".join(das("show", release, "--region", "x", "--format", form)[1:]))


def test_nothing_that_is_printed_is_markup_or_steers() -> None:
    printed = StringIO()
    for stderr in (False, True):
        console = PlainConsole(width=300, stderr=stderr)
        console.file = printed
        table = Table(STEERING, title=STEERING)
        table.add_row(STEERING)
        console.print(STEERING, table, Text(STEERING), labelled("refused:", f"{STEERING}\nstopped: b"))
    assert not steers(printed.getvalue())
    assert printed.getvalue().count("[red]:fire:") == 12
    assert "\nstopped" not in printed.getvalue()


def unforeseen(release: Path, das: Das) -> list[str]:
    """What `das check`, `das show` and the pages say of a release that is neither an answer nor a refusal in a line."""
    found = []
    for words in (["check"], ["show", "--json"], ["show", "--format", "csv"]):
        code, out, err = das(words[0], release, *words[1:])
        last = err.splitlines()[-1] if err else ""
        if code not in (0, 1) or (code and not last.startswith("refused: ")) or steers(out + err):
            found.append(f"{words}: {code} {err}")
    try:
        with refusing_malformed(release):
            pages = open_release(release)
            pages.check()
            warm(pages)
            addresses = list(islice(pages.addresses(), 40))
    except (Refused, NotThere):
        return found
    for address in [*addresses[:2], *addresses[2::8]]:
        for form in ("html", "csv", "json"):
            status = _answer(pages, {**address, "format": form}).status_code
            found += [f"{address}: {status}"] if status not in (200, 404) else []
    return found


def try_changes(release: Path, folder: Path, das: Das, draw: random.Random, seconds: float) -> None:
    """Change one thing of a release after the other, for a time; none may end in what nobody foresaw."""
    until, number = process_time() + seconds, 0
    while process_time() < until:
        number += 1
        copy = copy_of(release, folder / f"copy-{number}")
        what = (change_manifest if number % 2 else change_table)(copy, draw)
        with processor_seconds(60, what):
            assert (what, unforeseen(copy, das)) == (what, [])
        shutil.rmtree(copy)


@pytest.mark.parametrize("name", RELEASES)
@pytest.mark.ci
def test_a_release_of_any_shape_is_answered_or_refused(
    request: pytest.FixtureRequest, tmp_path: Path, das: Das, name: str
) -> None:
    try_changes(request.getfixturevalue(name), tmp_path, das, random.Random(name), 2)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", RELEASES)
def test_a_release_of_any_shape_is_answered_or_refused_for_long(
    request: pytest.FixtureRequest, tmp_path: Path, das: Das, name: str, seed: int
) -> None:
    try_changes(request.getfixturevalue(name), tmp_path, das, random.Random(f"{name} {seed}"), 60)


@pytest.mark.parametrize(
    "change", [{"files": ["a"]}, {"files": 7}, {"levels": [1]}, {"levels": None}, {"levels": {"USA, 1": None}}]
)
def test_a_manifest_of_another_shape_is_refused(released: Path, tmp_path: Path, change: dict[str, Any]) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(released, copy)
    manifest = json.loads((copy / "manifest.json").read_text()) | change
    (copy / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(Refused, match=r"manifest\.json"), refusing_malformed(copy):
        open_release(copy)
