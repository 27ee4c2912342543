"""`das synth` as a user meets it: its forms, what it prints, and how it ends."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

import pytest
from e2e_runs import das as das_here
from typer.testing import CliRunner

from flows.cli import app
from tasks.errors import Refused
from tasks.records.marks import read_mark
from tasks.synth.origins import _groups

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
    options = [
        "--params",
        example / "params",
        "--persons",
        "100000",
        "--only-state",
        "44",
        "--only-state",
        "72",
        "--record-format",
        "parquet",
    ]
    code, text = das("nation", tmp_path / "out", *options)
    assert code == 0
    assert "in states 44, 72" in text
    assert (tmp_path / "out" / "data" / "person-records.parquet").is_file()


def test_the_nation_needs_no_files(tmp_path: Path) -> None:
    code, text = das("nation", tmp_path / "out", "--persons", "30000", "--only-state", "11")
    assert code == 0
    assert "made-up shares" in text
    assert (tmp_path / "out" / "params" / "config.json").is_file()


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A folder of data without a mark."""
    for name in ("person-records.txt", "GRF-C.txt"):
        (tmp_path / name).write_text("mine\n")
    return tmp_path


def test_marking_ones_own_data(mine: Path) -> None:
    code, text = das("--mark", mine, "--yes")
    mark = read_mark(mine)
    assert code == 0
    assert "declares person-records.txt, GRF-C.txt synthetic" in text
    assert mark is not None
    assert (mark.generator, mark.seed) == ("declared by its owner", None)


@pytest.mark.parametrize(("answer", "marks"), [(b"y\n", True), (b"n\n", False), (b"\n", False), (b"\x04", False)])
def test_a_mark_is_asked_for_on_a_terminal(
    mine: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], answer: bytes, marks: bool
) -> None:
    """A terminal that is closed answers nothing."""
    terminal, end = os.openpty()
    os.write(terminal, answer)
    with os.fdopen(end) as keyboard:
        monkeypatch.setattr("sys.stdin", keyboard)
        assert das_here("synth", "--mark", mine) == (0 if marks else 1)
    os.close(terminal)
    assert "charge nothing" in "".join(capfd.readouterr())
    assert (read_mark(mine) is not None) == marks


def test_a_table_is_marked_beside_what_the_mark_covers_already(tmp_path: Path) -> None:
    for name in ("one.csv", "other.csv"):
        (tmp_path / name).write_text("SEX\n1\n")
        assert f"{tmp_path}/SYNTHETIC.json declares" in das("--mark", tmp_path / name, "--yes")[1]
    mark = read_mark(tmp_path)
    assert mark is not None
    assert set(mark.digests) == {"one.csv", "other.csv"}
    mark.check(mark.digests)
    (tmp_path / "SYNTHETIC.json").unlink()
    (tmp_path / "PUBLIC.json").write_text(json.dumps(mark.facts | {"source": "somebody"}))
    with pytest.raises(Refused, match=r"PUBLIC.json says that data here is public: put one\.csv elsewhere"):
        das("--mark", tmp_path / "one.csv", "--yes")


def test_a_mark_without_anybody_to_ask_is_refused(mine: Path) -> None:
    with pytest.raises(Refused, match="add --yes"):
        das("--mark", mine)
    assert read_mark(mine) is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--sead", "1"], "No such option: --sead"),
        ([], "das synth nation OUT"),
        (["a", "b"], "das synth nation OUT"),
        (["nation"], "das synth nation OUT"),
        (["out", "--persons", "5"], "--persons: not an option of das synth OUT"),
        (["a", "b", "c", "--only-state", "44"], "--only-state: not an option of das synth BLOCKS PARAMS OUT"),
        (["--mark", "data", "out"], "das synth nation OUT"),
        (["--mark", "data", "--shares", "x"], "--shares: not an option of das synth --mark DATA"),
        (["out", "--seed", "-1"], "greater than or equal to 0"),
        (["nation", "out", "--persons", "0"], "greater than or equal to 1"),
        (["nation", "out", "--persons", "9" * 20], "less than or equal to 1000000000"),
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
        (["{blocks}", "{params}", "{out}", "--shares", "{blocks}"], "no column ITERATION_NAME, US_POP"),
        (["{blocks}", "{params}", "{params}"], "is not empty"),
        (["{blocks}", "{params}", "{blocks}/out"], "cannot be made: "),
        (["nation", "{out}", "--params", "{params}", "--only-state", "43"], "43 is not a state code"),
        (["--mark", "{out}"], "holds no records"),
    ],
)
def test_bad_input_is_refused_in_one_line(words: list[str], message: str, example: Path, tmp_path: Path) -> None:
    (tmp_path / "blocks.csv").write_text(BLOCKS)
    places = {"params": example / "params", "blocks": tmp_path / "blocks.csv", "out": tmp_path / "out"}
    with pytest.raises(Refused, match=message) as refused:
        das(*(word.format(**places) for word in words))
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "out").exists()


def test_shares_that_do_not_fit_are_refused_and_gaps_are_warned_of(example: Path, tmp_path: Path) -> None:
    """A table next to the blocks is not taken: groups have made-up shares unless --shares names one."""
    params, csv, blocks = example / "params", tmp_path / "ddhca_published_national.csv.gz", tmp_path / "blocks.csv"
    blocks.write_text(BLOCKS)
    _, race, spans, _ = _groups(params)
    race_names, span_names = sorted(set(race.values())), sorted(set(spans.values()))
    whole = dict.fromkeys(race_names, 400_000_000 // len(race_names)) | dict.fromkeys(span_names, 1_000_000)

    def synth(counts: Mapping[str, object], *options: str | Path) -> str:
        rows = [f'"{name}",{count}' for name, count in counts.items()]
        csv.write_bytes(gzip.compress("\n".join(["ITERATION_NAME,US_POP", *rows, ""]).encode()))
        code, text = das(blocks, params, tmp_path / f"out-{uuid4()}", *options)
        assert code == 0
        return text

    shares = ("--shares", csv)
    assert "groups      follow" in synth(whole, *shares)
    assert "made-up shares" in synth(whole)
    gap = {name: count for name, count in whole.items() if name != race_names[0]}
    assert f"has no count of these groups, which get one person each: {race_names[0]}" in synth(gap, *shares)
    few = {name: count for name, count in whole.items() if name in (race_names[0], *span_names)}
    for counts, message in (
        (few, f"counts 1 of the {len(race_names)} race groups"),
        (whole | dict.fromkeys(race_names, 10), "is not of the nation"),
        (whole | {race_names[0]: "1.5e3"}, "is a whole number, or X where it was suppressed; not '1.5e3'"),
        (whole | {f" {race_names[0]}": 1}, "twice"),
    ):
        with pytest.raises(Refused, match=message):
            synth(counts, *shares)
