"""The folder of a command is there when it is whole; what is refused or killed leaves nothing under its name."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flows.cli import app
from tasks.errors import Failed, Refused
from tasks.lifecycle.new_folder import new_folder


def test_a_folder_appears_whole_in_place_of_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for place in (tmp_path / "a/b/new", tmp_path / "empty", tmp_path / "link"):
        if place.name == "empty":
            place.mkdir()
        with new_folder(place, 0o700) as folder:
            (folder / "file").write_text("whole")
            assert not (place / "file").exists()
        assert (place / "file").read_text() == "whole"
        assert place.stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "link").is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "empty", "link", "real"]


@pytest.mark.parametrize(
    ("error", "raised", "words"),
    [
        (Refused("bad input"), Refused, "bad input"),
        (KeyboardInterrupt("stopped"), KeyboardInterrupt, "stopped"),
        (OSError(28, "No space left on device"), Failed, "new cannot be written: No space left on device; nothing was"),
    ],
)
def test_what_fails_leaves_neither_the_folder_nor_those_above_it(
    tmp_path: Path, error: BaseException, raised: type[BaseException], words: str
) -> None:
    with pytest.raises(raised, match=words):
        _stop_in(tmp_path / "a/b/new", error)
    assert not any(tmp_path.iterdir())


def _stop_in(place: Path, error: BaseException) -> None:
    with new_folder(place) as folder:
        (folder / "file").write_text("half")
        raise error


def test_what_is_killed_leaves_nothing_under_the_name(tmp_path: Path) -> None:
    child = os.fork()
    if not child:
        with new_folder(tmp_path / "new") as folder:
            (folder / "file").write_text("half")
            os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert [path.name[:5] for path in tmp_path.iterdir()] == [".new."]


def test_a_place_where_no_folder_can_be_put_is_refused_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for place, words in {
        tmp_path: "is not empty",
        tmp_path / "file": "is not empty",
        tmp_path / "file/new": "cannot be made",
        Path(): "name a new folder in it",
    }.items():
        with pytest.raises(Refused, match=words), new_folder(place):
            pytest.fail("nothing can be written there")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "here"]


COMMANDS = {  # the end of the words is the folder to make
    "synth": ["tda", "synth", "{file}"],
    "public": ["tda", "public", "--yes", "{file}"],
    "areas": ["tda", "areas", "{none}", "{file}"],
    "import": ["tda", "import", "{none}"],
    "estimate": ["tda", "estimate", "{none}"],
    "accuracy": ["tda", "accuracy", "{none}"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_refused_command_makes_no_folder(tmp_path: Path, stages_here: None, command: str) -> None:
    (tmp_path / "file").write_text("no,blocks\n1,2\n")
    places = {"file": tmp_path / "file", "none": tmp_path / "none"}
    words = [word.format(**places) for word in COMMANDS[command]]
    done = CliRunner().invoke(app, [*words, str(tmp_path / "a/out")], env={"XDG_STATE_HOME": str(tmp_path / "state")})
    assert isinstance(done.exception, Refused), done.output
    assert not re.search(r"Traceback|\n", str(done.exception))
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "state") == ["file"]
