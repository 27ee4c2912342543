"""`das synth` as a user meets it: its forms, what it prints, and how it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flows.cli import app, main
from tasks.inputs.synthetic_mark import read_mark
from tasks.lifecycle.errors import Refused

runner = CliRunner()
BLOCKS = "STATE,COUNTY,TRACT,BLOCK,POP\n44,001,000100,1000,25\n"


def das(*words: str | Path) -> tuple[int, str]:
    result = runner.invoke(app, ["synth", *map(str, words)], env={"COLUMNS": "200"})
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


def test_the_example(tmp_path: Path) -> None:
    code, text = das(tmp_path / "out")
    assert code == 0
    assert "8,000 synthetic, seed 0" in text
    assert f"das validate {tmp_path}/out/params {tmp_path}/out/data" in text


def test_a_block_table_as_json(example: Path, tmp_path: Path) -> None:
    (tmp_path / "blocks.csv").write_text(BLOCKS)
    code, text = das(tmp_path / "blocks.csv", example / "params", tmp_path / "out", "--json", "--seed", "9")
    made = json.loads(text)
    assert code == 0
    assert (made["persons"], made["blocks"], made["states"], made["mark"]["seed"]) == (25, 1, ["44"], 9)


def test_the_nation(example: Path, tmp_path: Path) -> None:
    options = ["--params", example / "params", "--persons", "100000", "--states", "44,72", "--format", "parquet"]
    code, text = das("nation", tmp_path / "out", *options)
    assert code == 0
    assert "in states 44, 72" in text
    assert (tmp_path / "out" / "data" / "person-records.parquet").is_file()


def test_the_nation_needs_no_files(tmp_path: Path) -> None:
    code, text = das("nation", tmp_path / "out", "--persons", "30000", "--states", "11")
    assert code == 0
    assert "made-up shares" in text
    assert (tmp_path / "out" / "params" / "config.json").is_file()


def test_marking_ones_own_data(tmp_path: Path) -> None:
    (tmp_path / "person-records.txt").write_text("mine\n")
    (tmp_path / "GRF-C.txt").write_text("mine\n")
    code, text = das("--mark", tmp_path, "--yes")
    mark = read_mark(tmp_path)
    assert code == 0
    assert "declares person-records.txt, GRF-C.txt synthetic" in text
    assert mark is not None
    assert (mark.generator, mark.seed) == ("declared by its owner", None)


@pytest.mark.parametrize(
    ("answer", "marks"),
    [
        ("y\n", True),
        pytest.param("n\n", False, marks=pytest.mark.slow),
        pytest.param("\n", False, marks=pytest.mark.slow),
        ("", False),
    ],
)
def test_a_mark_is_asked_for(tmp_path: Path, answer: str, marks: bool) -> None:
    """On a terminal of its own; a terminal that is closed answers nothing."""
    for name in ("person-records.txt", "GRF-C.txt"):
        (tmp_path / name).write_text("mine\n")
    terminal, end = os.openpty()
    words = [sys.executable, "-c", "from flows.cli import main; main()", "synth", "--mark", str(tmp_path)]
    asked = subprocess.Popen(words, stdin=end, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    os.close(end)
    os.write(terminal, answer.encode() or b"\x04")
    text, _ = asked.communicate(timeout=60)
    os.close(terminal)
    assert "charge nothing" in text
    assert asked.returncode == (0 if marks else 1), text
    assert (read_mark(tmp_path) is not None) == marks


def test_a_mark_without_anybody_to_ask_is_refused(tmp_path: Path) -> None:
    for name in ("person-records.txt", "GRF-C.txt"):
        (tmp_path / name).write_text("mine\n")
    with pytest.raises(Refused, match="add --yes"):
        das("--mark", tmp_path)
    assert read_mark(tmp_path) is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "das synth nation OUT"),
        (["a", "b"], "das synth nation OUT"),
        (["nation"], "das synth nation OUT"),
        (["a", "b", "c", "d"], "das synth nation OUT"),
        (["out", "--persons", "5"], "--persons cannot be used with das synth OUT"),
        (["a", "b", "c", "--states", "44"], "--states cannot be used with das synth BLOCKS PARAMS OUT"),
        (["--mark", "data", "out"], "das synth nation OUT"),
        (["--mark", "data", "--shares", "x"], "--shares cannot be used with --mark DATA"),
        (["out", "--seed", "-1"], "greater than or equal to 0"),
        (["nation", "out", "--persons", "0"], "greater than or equal to 1"),
    ],
)
def test_wrong_usage_says_what_is_right(words: list[str], message: str) -> None:
    code, text = das(*words)
    assert code == 2
    assert message in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["none.csv", "{params}", "{out}"], r"none\.csv cannot be read: No such file"),
        (["{blocks}", "none", "{out}"], r"none/config\.json cannot be read: No such file"),
        (["{blocks}", "{params}", "{out}", "--shares", "{blocks}"], "is not a table of published counts"),
        (["{blocks}", "{params}", "{params}"], "exists already"),
        (["{blocks}", "{params}", "{blocks}/out"], "cannot be made: "),
        (["nation", "{out}", "--params", "{params}", "--states", "43"], "43 is not a state code"),
        (["--mark", "{out}"], "holds no person records"),
    ],
)
def test_bad_input_is_refused_in_one_line(words: list[str], message: str, example: Path, tmp_path: Path) -> None:
    (tmp_path / "blocks.csv").write_text(BLOCKS)
    places = {"params": example / "params", "blocks": tmp_path / "blocks.csv", "out": tmp_path / "out"}
    with pytest.raises(Refused, match=message) as refused:
        das(*(word.format(**places) for word in words))
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "code", "line"),
    [
        (
            ["synth", "none.csv", "{params}", "{out}"],
            1,
            "refused: none.csv cannot be read: No such file or directory\n",
        ),
        (["synth", "--sead", "1"], 2, None),
        (["synth", "{out}", "--json"], 0, ""),
    ],
)
def test_exit_codes_and_the_one_line(
    words: list[str],
    code: int,
    line: str | None,
    example: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    places = {"params": example / "params", "out": tmp_path / "out"}
    monkeypatch.setattr("sys.argv", ["das", *(word.format(**places) for word in words)])
    with pytest.raises(SystemExit) as done:
        main()
    assert (done.value.code or 0) == code
    if line is not None:
        assert capsys.readouterr().err == line
