"""A run releases the same bytes in every environment of a user's, or is refused with a remedy and charges nothing."""

from __future__ import annotations

import ast
import errno
import fcntl
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from e2e_runs import ACCOUNT, digest, open_account, prepared, real_data, with_secret
from prefect.client.orchestration import get_client
from prefect.settings import temporary_settings

import flows
from flows.execution.fork_server import LONGEST_FOLDER, variables
from flows.execution.loopback import reach_loopback_directly
from flows.execution.safetab_settings import DetailedDhcaSettings
from tests.flows.conftest import Refuse

ROOT = Path(flows.__file__).resolve().parents[1]
DAS = Path(sys.executable).with_name("das")
NOBODY = "127.0.0.1:9"  # an address at which nobody answers
RANGES = "localhost,127.0.0.0/8,10.0.0.0/8,::1/128"
PLAIN_C = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}  # else Python takes UTF-8 for C
LATIN_1 = {"LC_ALL": "en_US.ISO-8859-1"}


def long_folder(length: int) -> dict[str, str]:
    return {"TMPDIR": "é à " + "x" * (length - 10) + "/y"}


ENVIRONMENTS = {
    "http proxy": {"HTTP_PROXY": f"http://{NOBODY}"},
    "lower case": {"http_proxy": f"http://{NOBODY}", "no_proxy": "10.0.0.0/8,.example.org"},
    "ranges": {"HTTP_PROXY": f"http://{NOBODY}", "NO_PROXY": RANGES},
    "a range of IPv6": {"NO_PROXY": "localhost,127.0.0.1,::1/128"},
    "socks": {"ALL_PROXY": f"socks5h://{NOBODY}"},
    "lower-case socks": {"all_proxy": f"socks5://{NOBODY}", "HTTPS_PROXY": f"http://{NOBODY}", "NO_PROXY": "*.org"},
    "every proxy": {"HTTP_PROXY": f"http://{NOBODY}", "ALL_PROXY": f"socks5h://{NOBODY}", "NO_PROXY": RANGES},
    "long TMPDIR": long_folder(125),
    "longer TMPDIR": long_folder(200),
    "plain C": PLAIN_C,
    "long TMPDIR in plain C": PLAIN_C | long_folder(200),
    "Latin-1": LATIN_1,
    "Latin-1, no UTF-8 mode": LATIN_1
    | {"LC_ALL": "", "LANG": "en_US.ISO-8859-1", "PYTHONUTF8": "0"}
    | long_folder(125),
    "ASCII output": {"LC_ALL": "C.UTF-8", "PYTHONIOENCODING": "ascii"},
}
# By name the command that starts `das` so; "$@" is `das` and its options. Those that a user may not start are skipped.
READ_ONLY = (
    'for place in "{0}" "{1}"; do mount --bind "$place" "$place"; mount -o remount,bind,ro "$place"; done; exec "$@"'
)
AROUND = {
    "umask 077": ["sh", "-c", 'umask 077; exec "$@"', "sh"],
    "no network": ["unshare", "--net", "sh", "-ec", 'ip link set lo up; exec "$@"', "sh"],
    "read-only installation": ["unshare", "--mount", "sh", "-ec", READ_ONLY.format(ROOT, sys.prefix), "sh"],
    "no privileges": ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"],
}
# What a run may meet at once: proxies, encodings and ways to start `das` do not touch each other. Each alone is slow.
TOGETHER = {
    ("every proxy", "long TMPDIR in plain C"): [],
    ("http proxy", "ASCII output", "no network", "read-only installation"): [pytest.mark.ci],
    ("socks", "Latin-1", "umask 077", "no privileges"): [pytest.mark.ci],
}
ALONE = {(name,): [pytest.mark.slow] for name in [*ENVIRONMENTS, *AROUND]}


@pytest.fixture(scope="module")
def settled(example: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[DetailedDhcaSettings, str]:
    """A run's settings, and the digest of its release under a fixed secret."""
    return prepared(example, tmp_path_factory.mktemp("préparé à part"), "run-pr")


def environment_of(names: tuple[str, ...], folder: Path) -> dict[str, str]:
    """This process's environment with the variables of cases; makes the folders and the locale that they name."""
    given = {variable: value for name in names for variable, value in ENVIRONMENTS.get(name, {}).items()}
    if "TMPDIR" in given:
        given["TMPDIR"] = f"{folder}/{given['TMPDIR']}"
        Path(given["TMPDIR"]).mkdir(parents=True)
    if "en_US.ISO-8859-1" in given.values():
        if not shutil.which("localedef") or not Path("/usr/share/i18n/locales/en_US").exists():
            pytest.skip("no localedef, or no sources of locales")
        given["LOCPATH"] = str(folder)
        subprocess.run(["localedef", "-i", "en_US", "-f", "ISO-8859-1", folder / "en_US.ISO-8859-1"], check=True)
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_API", "LC_"))}
    return own | given


def around(names: tuple[str, ...]) -> list[str]:
    """The words before `das`; skips where this user may not start it so."""
    words = []
    for way in (AROUND[name] for name in names if name in AROUND):
        if (tried := subprocess.run([*way, "true"], capture_output=True, text=True)).returncode:
            pytest.skip(f"{way[0]} may not: {tried.stderr.strip()}")
        words += way
    return words


@pytest.mark.e2e
@pytest.mark.parametrize(
    "names", [pytest.param(names, marks=marks) for names, marks in (TOGETHER | ALONE).items()], ids=", ".join
)
def test_a_run_releases_the_same_bytes(
    names: tuple[str, ...], settled: tuple[DetailedDhcaSettings, str], tmp_path: Path
) -> None:
    known, expected = settled
    folder = tmp_path / "Île données"
    settings = with_secret(known.model_copy(update={"runs_folder": str(folder / "state"), "out": str(folder / "out")}))
    words = [DAS, "run", settings.params, settings.data, settings.out, "--runs-folder", settings.runs_folder]
    words += ["--run-id", "run", "--no-spine", "--workers", "1"]
    environment = environment_of(names, tmp_path)
    done = subprocess.run(
        [*around(names), *words],
        env=environment,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    said = done.stdout.decode("latin-1")
    assert done.returncode == 0, said
    assert digest(folder / "out" / "pr") == expected
    if any("TMPDIR" in ENVIRONMENTS.get(name, {}) for name in names):
        assert list(Path(environment["TMPDIR"]).iterdir()) == []


@pytest.mark.usefixtures("stages_here")
def test_a_run_is_refused_where_its_ledger_cannot_be_locked(
    example: Path, tmp_path: Path, refused: Refuse, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    real_data(example, tmp_path)
    ledger = open_account(tmp_path)
    words = [tmp_path / "params", tmp_path / "data", tmp_path / "out", "--account", ACCOUNT, "--ledger", ledger.path]
    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "lockf", fails)
        refused("cannot be locked: No locks available; keep it on a local disk (--ledger)", "run", *words)
    assert ledger.rows(ACCOUNT) == []
    assert not (tmp_path / "out").exists()


def test_a_run_is_refused_where_its_home_cannot_be_written(example: Path, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in ("XDG_STATE_HOME", "PREFECT_HOME")}
    ended = subprocess.run(
        [DAS, "run", example / "params", example / "data", tmp_path / "out"],
        env=environment | {"HOME": "/proc/nobody"},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 1, ended.stderr
    refusal = "refused: /proc/nobody/.local/state/das-flows cannot be written: No such file or directory"
    assert f"{refusal}; name another folder with --runs-folder or XDG_STATE_HOME\n" in ended.stderr
    assert "Warning" not in ended.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("url", "is_direct"),
    [
        ("http://127.0.0.1:4200/api", True),
        ("http://localhost:4200/api", True),
        ("http://[::1]:4200/api", True),
        ("http://prefect.example.org/api", False),
    ],
)
@pytest.mark.parametrize("sync_client", [True, False])
def test_only_a_server_elsewhere_is_asked_through_a_proxy(url: str, is_direct: bool, sync_client: bool) -> None:
    reach_loopback_directly()
    with variables({"HTTP_PROXY": f"http://{NOBODY}"}), temporary_settings({"api.url": url}):
        client = get_client(sync_client=sync_client)._client
    assert (client._transport_for_url(httpx.URL(url)) is client._transport) == is_direct


def test_a_temporary_folder_too_long_for_sockets_is_refused_where_no_short_one_serves(tmp_path: Path) -> None:
    long = tmp_path / ("x" * LONGEST_FOLDER)
    long.mkdir()
    program = (
        "from flows.execution import fork_server\n"
        "from tasks.errors import Refused\n"
        "fork_server.SHORT_FOLDERS = ('/proc/none', '/proc/neither')\n"
        "try:\n"
        "    fork_server.start_fork_server()\n"
        "except Refused as refused:\n"
        "    print(refused)\n"
    )
    words = [sys.executable, "-c", program]
    said = subprocess.run(words, env=os.environ | {"TMPDIR": str(long)}, stdout=subprocess.PIPE, check=True, text=True)
    assert said.stdout == (
        f"TMPDIR is too long for a socket ({len(str(long))} bytes, {LONGEST_FOLDER} at most), and /proc/none and "
        "/proc/neither cannot be written: set a shorter TMPDIR\n"
    )


def test_what_a_terminal_cannot_show_is_replaced_and_csv_is_utf8() -> None:
    program = (
        "import das_flows\n"
        "das_flows.use_utf8()\n"
        "from flows.reports.terminal import Format, printing, report\n"
        "from tasks.releases.pages.text_table import TextTable\n"
        "import sys\n"
        "for form in ('csv', 'json', 'table'):\n"
        "    table = TextTable(sys.argv[1], ['Ort'], [[sys.argv[2]]])\n"
        "    with printing(as_json=form == 'json'):\n"
        "        report({'Ort': sys.argv[2]}, [table], Format(form.replace('json', 'table')))\n"
        "    sys.stdout.flush()\n"
        "    sys.stdout.buffer.write(b'\\0')\n"
    )
    printed = subprocess.run(
        [sys.executable, "-c", program, "Größe ≥ 1", "Łódź"],
        env=os.environ | PLAIN_C | {"PYTHONIOENCODING": "latin-1"},
        stdout=subprocess.PIPE,
        check=True,
    ).stdout
    as_csv, as_json, table, _ = printed.split(b"\0")
    assert as_csv.decode() == "Ort\nŁódź\n"
    assert json.loads(as_json) == {"Ort": "Łódź"}
    assert "?ód?" in table.decode("latin-1")


def test_every_text_file_is_read_and_written_as_utf8() -> None:
    """`read_text` and `write_text` of any object, whose type ruff's PLW1514 does not always see."""
    packages = ("flows", "tasks", "privacy", "spine")
    sources = {path: path.read_text("utf-8") for package in packages for path in (ROOT / package).rglob("*.py")}
    lacking = [
        f"{path.relative_to(ROOT)}:{call.lineno}"
        for path, source in sources.items()
        if "_text(" in source
        for call in ast.walk(ast.parse(source))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and len(call.args) == {"read_text": 0, "write_text": 1}.get(call.func.attr)
        and "encoding" not in {keyword.arg for keyword in call.keywords}
    ]
    assert lacking == []
