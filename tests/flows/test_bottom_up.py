"""`das bottom-up` as a person types it, and its flow on a real Dask cluster under a real Prefect server."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from contextlib import nullcontext
from fractions import Fraction
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from distributed import Client

from flows.cli import main
from flows.execution.settings import load_settings
from privacy.accounting.ledger import Account, Ledger, Request
from tasks.bottom_up.example import Example, make_example
from tasks.lifecycle.errors import Refused


@pytest.fixture
def das(das):
    """Run `das bottom-up ARGUMENTS`; returns (exit code, stdout, stderr)."""
    return partial(das, "bottom-up")


@pytest.fixture
def made(tmp_path: Path) -> Example:
    return make_example(tmp_path / "made", 20_000, states=12, counties=4)


COUNTS = ("--counts", "120,40,15,900,300,60,5,0,20,10")


def test_noise_table_has_the_closed_forms(das):
    code, out, _ = das("noise", "--epsilon", "0.5", "--cells", "1", "--cells", "100", "--json")
    (told,) = json.loads(out)
    assert (code, told["epsilon"]) == (0, "1/2")
    assert told["variance"] == pytest.approx(7.835396, abs=1e-6)
    assert told["margins"][0]["margin"] == 6
    assert told["margins"][1]["absolute"] == pytest.approx(22.30273, abs=1e-5)
    _, out, _ = das("noise", "--epsilon", "1", "--sampling-rate", "0.25", "--json")
    assert json.loads(out)[0]["sampled"] == pytest.approx(math.log(1 + 0.25 * math.expm1(1)))


def test_curve_stands_beside_its_closed_forms(das):
    code, out, _ = das("curve", *COUNTS, "--epsilon", "1", "--epsilon", "50", "--replicates", "5", "--json")
    told = json.loads(out)
    assert (code, told["cells"]) == (0, 10)
    assert [point["a1"]["expected"] for point in told["points"]] == pytest.approx([0.99421, 1], abs=5e-6)
    assert told["points"][1]["a2"]["mean"] == 1
    assert "NOT PRIVATE" in told["notes"][0]
    _, text, _ = das("curve", *COUNTS, "--epsilon", "1", "--clip", "--format", "csv")
    assert text.splitlines()[0] == "epsilon,L1,E L1,L2,E L2,A1,E A1,A2,E A2"
    assert text.splitlines()[1].split(",")[2] == ""  # no closed form where counts are clipped


def test_charts_name_axes_and_units_and_follow_the_page(das, tmp_path):
    for name in ("curve.svg", "curve.png"):
        assert das("curve", *COUNTS, "--replicates", "2", "--plot", tmp_path / name)[0] == 0
    svg = (tmp_path / "curve.svg").read_text()
    for text in (
        "privacy-loss budget ε",
        "accuracy (1 is exact)",
        "error of a cell [records; records²]",
        "closed form",
    ):
        assert text in svg
    assert "prefers-color-scheme:dark" in svg
    assert "#0a0b0c" not in svg  # all ink is the page's
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("noise", "--epsilon", "-1"), "--epsilon is a positive number, not -1"),
        (("noise", "--epsilon", "0"), "--epsilon is a positive number, not 0"),
        (("noise", "--epsilon", "nan"), "--epsilon is a positive number, not 'nan'"),
        (("curve", *COUNTS, "--epsilon", "1e999999999"), "--epsilon is a positive number"),
        (("noise", "--sampling-rate", "0"), "sampling rate"),
        (("curve", "--counts", "1,x"), "whole numbers"),
        (("curve", "--counts", "1,-2"), "cannot be negative"),
        (("curve", "--counts", "0,0"), "sum to 0"),
        (("curve", *COUNTS, "--plot", "curve.gif"), ".svg, .png, .pdf"),
        (("curve", *COUNTS, "--plot", "/nowhere/curve.svg"), "cannot be written"),
        (("run", "t.csv", "/nowhere.json", "out", "--epsilon", "1"), "cannot be read"),
        (("run", "--resume", "nobody"), "no confidential directory"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_bad_input_is_refused_in_one_line(das, arguments, message):
    code, out, err = das(*arguments)
    assert (code, out) == (1, "")
    assert message in " ".join(err.split())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--epsilon", "-1"), "epsilon must be positive"),
        (("--epsilon", "much"), "is not a number"),
        (("--epsilon", "1", "--marginal", "TOWN"), "no factor 'TOWN'"),
        (("--epsilon", "1", "--tolerance", "-1"), "tolerance must not be negative"),
        (("--epsilon", "1", "--run-id", "../up"), "run_id"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_bad_options_of_a_run_are_refused_before_it_starts(das, made, tmp_path, options, message):
    code, _, err = das("run", made.table, made.domain, tmp_path / "out", *options)
    assert code == 1
    assert message in " ".join(err.split())
    assert not (tmp_path / "out").exists()


def test_a_release_goes_to_a_folder(das, made):
    code, _, err = das("run", made.table, made.domain, "s3://bucket/out", "--epsilon", "1")
    assert (code, "is a URL" in err) == (1, True)


def test_usage_is_exit_2(das):
    assert das("run", "table.csv")[0] == 2
    assert das("curve")[0] == 2
    assert das("curve", *COUNTS, "--method", "magic")[0] == 2


def test_example_writes_what_a_run_needs(das, tmp_path):
    code, out, _ = das("example", tmp_path / "new", "--rows", "100", "--json")
    assert (code, set(json.loads(out))) == (0, {"table", "domain", "totals"})
    assert das("example", tmp_path / "new")[0] == 1


# The flow.


@pytest.fixture
def settings(made: Example, tmp_path: Path, client: Client, monkeypatch: pytest.MonkeyPatch):
    """Settings of a run on the example as if it were somebody's data: its mark is taken away."""
    from flows.execution.bottom_up_settings import BottomUpSettings

    monkeypatch.setattr("flows.execution.run.open_cluster", lambda settings, scratch: nullcontext(client))
    (made.table.parent / "SYNTHETIC.json").unlink()
    ledger = tmp_path / "ledger.sqlite"
    Ledger(ledger).open_account(Account("long-form", "puredp", 1))
    return BottomUpSettings(
        table=str(made.table),
        domain=str(made.domain),
        out=str(tmp_path / "out"),
        epsilon="1/2",
        totals=str(made.totals),
        account="long-form",
        ledger=str(ledger),
        state=str(tmp_path / "state"),
        run_id="r1",
    )


@pytest.mark.e2e
@pytest.mark.usefixtures("prefect_server")
def test_a_run_is_charged_once_and_its_release_calibrated(settings, made):
    from flows.prefect_flows import bottom_up

    place = Path(bottom_up(settings))
    assert place == Path(settings.out) / "bottom-up"
    published = dict(line.split(",") for line in made.totals.read_text().splitlines()[1:])
    states = {row["STATE"]: row["COUNT"] for row in pq.read_table(place / "parquet/by-state.parquet").to_pylist()}
    assert "09" not in states  # its total does not agree
    assert {state: states[state] for state in states if published[state]} == {
        state: int(total) for state, total in published.items() if total and state != "09"
    }
    book = Ledger(Path(settings.ledger))
    (row,) = book.rows("long-form")
    assert (row.status, float(row.amount), len(row.states)) == ("released", 0.5, 12)
    assert not (Path(settings.state) / "runs/r1").exists()
    manifest = (place / "manifest.json").read_text()
    assert Path(bottom_up(settings)) == place  # started again: the release that is there, and no second charge
    assert (place / "manifest.json").read_text() == manifest
    with pytest.raises(Refused, match="another configuration"):
        bottom_up(settings.model_copy(update={"clip": True}))
    assert book.spent("long-form")["01"] == row.amount
    with pytest.raises(Refused, match="is not empty"):
        bottom_up(settings.model_copy(update={"run_id": "r2"}))


@pytest.mark.e2e
@pytest.mark.usefixtures("prefect_server")
def test_a_run_that_stops_after_its_noise_ends_in_one_charge_and_the_same_noise(settings, monkeypatch):
    import flows.bottom_up as flow
    from flows.prefect_flows import bottom_up
    from tasks.lifecycle.files import open_array
    from tasks.lifecycle.run_directory import RunDirectory

    def stops(run, workers, staged):
        raise Refused("stopped here")

    with monkeypatch.context() as patch:
        patch.setattr(flow, "stage_release", stops)
        with pytest.raises(Refused, match="stopped here"):
            bottom_up(settings)
    run = RunDirectory(Path(settings.state) / "runs/r1")
    noisy = open_array(run / "noisy/final", "count").copy()
    reported = open_array(run / "noisy/final", "reported").copy()
    assert (Path(settings.state) / "runs/r1/secret").stat().st_mode & 0o777 == 0o600
    with pytest.raises(Refused, match="began with another clip: continue with das bottom-up run --resume r1"):
        bottom_up(settings.model_copy(update={"clip": True}))
    assert load_settings(run) == settings
    place = Path(bottom_up(settings))
    assert pq.read_table(place / "parquet/histogram.parquet")["COUNT"].to_pylist() == noisy[reported].tolist()
    assert len(Ledger(Path(settings.ledger)).rows("long-form")) == 1


def test_the_settings_of_a_run_with_a_secret_stay(made, tmp_path):
    from flows.execution.bottom_up_settings import BottomUpSettings
    from flows.execution.cluster import ClusterSettings
    from flows.execution.settings import keep_settings
    from tasks.lifecycle.run_directory import RunDirectory

    run = RunDirectory(tmp_path / "runs" / "r1")
    run.create()
    files = {"table": str(made.table), "domain": str(made.domain), "out": str(tmp_path / "out")}
    first = BottomUpSettings(**files, epsilon="1", run_id="r1")
    keep_settings(run, first)
    (run / "counts").mkdir()
    half = first.model_copy(update={"epsilon": "1/2"})
    keep_settings(run, half)  # nothing was drawn: it begins anew
    assert load_settings(run) == half
    assert not (run / "counts").exists()
    (run / "secret").touch()
    with pytest.raises(Refused, match="began with another epsilon"):
        keep_settings(run, first)
    assert load_settings(run) == half
    moved = half.model_copy(update={"cluster": ClusterSettings(workers=7)})
    keep_settings(run, moved)
    assert load_settings(run) == moved


@pytest.mark.parametrize(
    ("options", "cluster"),
    [
        ((), {"workers": 3}),
        pytest.param(("--workers", 7), {"workers": 7}, marks=pytest.mark.slow),
        (("--scheduler", "tcp://127.0.0.1:9"), {"scheduler": "tcp://127.0.0.1:9"}),
    ],
    ids=str,
)
def test_a_resumed_run_may_leave_its_cluster(das, made, tmp_path, monkeypatch, options, cluster):
    from flows import prefect_flows
    from flows.execution.bottom_up_settings import BottomUpSettings
    from flows.execution.cluster import ClusterSettings

    given: list[BottomUpSettings] = []

    def stops(settings):
        given.append(settings)
        raise Refused("stopped here")

    monkeypatch.setattr(prefect_flows, "bottom_up", stops)
    at = ("--state", tmp_path / "state")
    das("run", made.table, made.domain, tmp_path / "out", "--epsilon", "1", "--run-id", "r1", "--workers", "3", *at)
    assert das("run", "--resume", "r1", *options, *at)[0] == 1
    first, second = given
    assert first.cluster == ClusterSettings(workers=3)
    assert second.cluster == ClusterSettings(**cluster)
    assert second.model_copy(update={"cluster": first.cluster}) == first
    code, _, err = das("run", "--resume", "r1", "--epsilon", "2", *at)
    assert (code, "--epsilon: a resumed run keeps" in " ".join(err.split())) == (2, True)
    assert das("run", "--resume", "r1", "--ledger", tmp_path / "other.sqlite", *at)[0] == 2
    assert len(given) == 2


def test_resume_knows_runs_of_other_systems_and_released_ones(das, made, tmp_path, monkeypatch):
    from flows import prefect_flows

    def stops(settings):
        raise Refused("stopped here")

    monkeypatch.setattr(prefect_flows, "bottom_up", stops)
    state = tmp_path / "state"
    das("run", made.table, made.domain, tmp_path / "out", "--epsilon", "1", "--run-id", "r1", "--state", state)
    monkeypatch.setattr(sys, "argv", ["das", "run", "--resume", "r1", "--state", str(state)])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 1
    ledger = Ledger(state / "ledger.sqlite")
    ledger.open_account(Account("a", "puredp", 1))
    states = ("01",)
    ledger.reserve(Request("done", "a", states, "puredp", Fraction(1), "d", "c", 1, "r"), lambda: "secret")
    ledger.seal("done", "digest")
    assert das("run", "--resume", "done", "--state", state)[0] == 1
    ledger.release("done", "digest")
    code, out, _ = das("run", "--resume", "done", "--state", state)
    assert (code, out) == (0, "run done is released; there is nothing to resume\n")


@pytest.mark.slow
def test_a_run_that_is_killed_says_how_it_goes_on(made, tmp_path):
    state = tmp_path / "state"
    arguments = ("run", made.table, made.domain, tmp_path / "out", "--epsilon", "1", "--run-id", "r1", "--state", state)
    code = "import os, signal, sys, flows.prefect_flows as flow\n"
    code += "flow.bottom_up = lambda settings: os.kill(os.getpid(), signal.SIGTERM)\n"
    code += "from flows.cli import main\nmain()"
    command = [sys.executable, "-c", code, "bottom-up", *map(str, arguments)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 3
    assert f"continue with: das bottom-up run --resume r1 --state {state}" in ended.stderr
    assert (state / "runs/r1/settings.json").is_file()


@pytest.mark.e2e
@pytest.mark.usefixtures("prefect_server")
def test_a_run_that_stops_is_listed_and_discarded_like_any_other(settings, monkeypatch, capsys):
    from flows.cli import main
    from flows.prefect_flows import bottom_up

    def runs(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", ["das", "runs", *words, "--state", settings.state, "--json"])
        with pytest.raises(SystemExit) as left:
            main()
        assert not left.value.code
        return json.loads(capsys.readouterr().out)

    with monkeypatch.context() as patch:
        patch.setattr(
            "flows.execution.runner.commit", lambda run, **named: (_ for _ in ()).throw(Refused("stopped here"))
        )
        with pytest.raises(Refused, match="stopped here"):
            bottom_up(settings)
    (left,) = runs("list")
    assert (left["run"], left["kind"], left["out"]) == ("r1", "bottom-up", settings.out)
    assert any(Path(settings.out).iterdir())  # what it has staged
    assert runs("discard", "r1") == {"run": "r1", "charged": True}
    assert runs("list") == []
    assert not any(Path(settings.out).iterdir())
    assert Ledger(Path(settings.ledger)).row("r1").status == "abandoned"


@pytest.mark.e2e
@pytest.mark.usefixtures("prefect_server")
def test_a_lost_secret_is_never_made_anew(settings, monkeypatch):
    import flows.bottom_up as flow
    from flows.prefect_flows import bottom_up

    with monkeypatch.context() as patch:
        patch.setattr(flow, "measure", lambda run, workers: (_ for _ in ()).throw(Refused("stopped here")))
        with pytest.raises(Refused, match="stopped here"):
            bottom_up(settings)
    (Path(settings.state) / "runs/r1/secret").unlink()
    with pytest.raises(Refused, match="secret of run r1 is gone"):
        bottom_up(settings)
    assert len(Ledger(Path(settings.ledger)).rows("long-form")) == 1


@pytest.mark.e2e
@pytest.mark.usefixtures("prefect_server")
def test_findings_are_shown_to_the_curator_without_their_values(das, made, tmp_path):
    declared = json.loads(made.domain.read_text())
    declared["factors"]["GQ"].remove("501")
    made.domain.write_text(json.dumps(declared))
    options = ("--epsilon", "1", "--workers", "1", "--run-id", "named")  # an id made of the time may hold 501
    code, shown, err = das("run", made.table, made.domain, tmp_path / "out", *options)
    assert code == 1
    assert "levels that are not declared" in " ".join(shown.split())
    assert "501" not in shown + err
    assert not (tmp_path / "out").exists()


@pytest.mark.e2e
@pytest.mark.usefixtures("prefect_server")
def test_the_command_runs_and_a_curve_of_confidential_data_wants_the_curator(das, made, tmp_path, client, monkeypatch):
    out = tmp_path / "out"
    code, told, err = das("run", made.table, made.domain, out, "--epsilon", "1", "--workers", "1", "--json")
    assert (code, json.loads(told)["synthetic"]) == (0, True)
    amounts = [line.split("│")[3].strip() for line in err.splitlines() if "BOTTOM-UP" in line]
    assert amounts == ["epsilon 1", "epsilon 2"]  # add or remove one record; replace one
    monkeypatch.setattr("flows.execution.cluster.open_cluster", lambda settings, scratch: nullcontext(client))
    curve = ("curve", made.table, made.domain, "--calibrate", made.totals, "--epsilon", "1", "--workers", "1")
    code, told, _ = das(*curve, "--json")
    assert (code, json.loads(told)["points"][0]["a1"]["expected"]) == (0, None)
    (made.table.parent / "SYNTHETIC.json").unlink()
    code, _, err = das(*curve)
    assert code == 1
    assert "was run as synthetic before" in err
    curve += ("--ledger", tmp_path / "other.sqlite")
    code, _, err = das(*curve)
    assert code == 1
    assert "--i-am-the-curator" in err
    assert das(*curve, "--i-am-the-curator")[0] == 0
    assert not any(path.is_dir() for path in (tmp_path / "state" / "das-flows" / "runs").iterdir())
