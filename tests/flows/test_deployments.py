"""The files of deploy/ that Prefect reads: deployments fit their flows, logs are JSON, and dry runs spend nothing."""

from __future__ import annotations

import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from datetime import datetime
from functools import cache
from pathlib import Path
from pkgutil import resolve_name
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from e2e_runs import ACCOUNT, das, open_account, real_data, settings_for
from prefect.exceptions import ParameterTypeError
from top_down_inputs import country

from flows.execution.policy import DRY_RUN, POLICY, SPINE, under_policy
from flows.execution.settings import keep_settings
from flows.execution.systems import SYSTEMS
from tasks.lifecycle.authorization import SECRET
from tasks.records.findings import REPORT
from tasks.records.marks import MARK_FILE
from tasks.top_down.declared.synth import synthesize_records

DISTRICTS = "example-districts"
DEPLOY = Path(__file__).resolve().parents[2] / "deploy"


@cache
def environment() -> dict[str, str]:
    """The variables of deployments: those of the file, and those that the policy gives."""
    program = [sys.executable, str(DEPLOY / "offer.py"), "variables", str(DEPLOY / "policy.json")]
    made = subprocess.run(program, capture_output=True, text=True, check=True).stdout
    lines = [*(DEPLOY / "environment").read_text().splitlines(), *made.splitlines()]
    return dict(line.split("=", 1) for line in lines if line[:1] not in "#")


def deployments(variables: dict[str, str]) -> dict[str, Any]:
    """The deployments by flow and name, as `prefect deploy` reads them with these variables."""
    text = re.sub(r"\{\{ \$(\w+) \}\}", lambda found: variables[found[1]], (DEPLOY / "prefect.yaml").read_text())
    found = yaml.safe_load(text)["deployments"]
    return {f"{each['entrypoint'].rpartition(':')[2]}/{each['name']}": each for each in found}


def test_every_system_has_deployments_and_dry_runs_with_the_parameters_of_its_flow() -> None:
    found = []
    for name, each in deployments(environment()).items():
        path, _, function = each["entrypoint"].partition(":")
        flow = resolve_name(f"{path.removesuffix('.py').replace('/', '.')}:{function}")
        settings = flow.validate_parameters(each["parameters"]).get("settings")
        assert each["tags"][0] == (settings.SYSTEM if settings else SPINE)
        assert ("dry-run" in each["tags"]) == name.partition("/")[2].startswith("dry-") == (flow.name == DRY_RUN)
        found.append((each["tags"][0], flow.name))
    assert {*found} == {*((name, flow) for name in SYSTEMS for flow in (name, DRY_RUN)), (SPINE, SPINE)}


def test_the_example_of_a_policy_lets_every_deployment_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(POLICY, str(DEPLOY / "policy.json"))
    for each in deployments(environment()).values():
        path, _, function = each["entrypoint"].partition(":")
        flow = resolve_name(f"{path.removesuffix('.py').replace('/', '.')}:{function}")
        (settings,) = flow.validate_parameters(each["parameters"]).values()
        system = [settings.SYSTEM] if flow.name == DRY_RUN else []
        made = under_policy(settings, *system, flow.name)
        assert made.cluster.memory_limit == environment()["DAS_MEMORY"]
        assert getattr(made, "approval", True)


def test_every_jurisdiction_has_its_own_input() -> None:
    for name, each in deployments({variable: f"${variable}" for variable in environment()}).items():
        inputs = re.findall(r"DAS\w*INPUT\w*", json.dumps(each))
        assert {one[-3:] for one in inputs} == ({f"_{name[-2:].upper()}"} if "jurisdiction" in str(each) else set())


def test_deployments_without_inputs_are_not_offered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a policy: those whose sections it has, and whose files exist; a place is written in the policy alone."""
    (tmp_path / "us").mkdir()
    (tmp_path / "params").mkdir()
    (tmp_path / "us/GRF-C.txt").touch()
    policy = {
        "all": {"fixed": {"runs_folder": "/r", "out": "/o/{date}/{product}/{run}", "cluster.memory_limit": "6GiB"}},
        "detailed-dhca": {
            "fixed": {"account": "a b", "params": str(tmp_path / "params")},
            "one_of": {"data": [str(tmp_path / "us"), str(tmp_path / "pr")]},
        },
    }
    (tmp_path / "policy.json").write_text(json.dumps(policy))

    def offer(*words: object, **more: str) -> list[str]:
        with monkeypatch.context() as patch:
            patch.setattr(sys, "argv", ["offer.py", *map(str, words)])
            patch.setattr(os, "environ", more)
            runpy.run_path(str(DEPLOY / "offer.py"), run_name="__main__")
        return capsys.readouterr().out.splitlines()

    lines = offer("variables", tmp_path / "policy.json")
    assert "DAS_OUT=/o" in lines
    assert "DAS_ACCOUNT='a b'" in lines
    assert not any("TDA" in line for line in lines)
    variables = dict(shlex.split(line)[0].split("=", 1) for line in lines)
    offered = ["detailed-dhca-us", "spine-us", "dry-detailed-dhca-us"]
    assert offer("deployments", **variables) == [f"--name {name}" for name in offered]
    policy["all"]["fixed"]["account"] = policy["detailed-dhca"]["fixed"].pop("account")
    (tmp_path / "policy.json").write_text(json.dumps(policy))
    shared = dict(shlex.split(line)[0].split("=", 1) for line in offer("variables", tmp_path / "policy.json"))
    assert variables.items() <= shared.items(), "what is fixed for all flows is found as a run finds it"
    assert offer("deployments", **shared) == [f"--name {name}" for name in offered]


def test_a_release_lies_under_the_day_on_which_its_run_began(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the day on which it is continued, before its release and after."""
    out = f"{tmp_path}/out/{{date}}/{{product}}/{{run}}"
    settings = settings_for(tmp_path, "a-pr", out=out).model_copy(update={"run_id": None})

    def place(day: int) -> str:
        clock = SimpleNamespace(now=lambda: datetime(2030, 9, day))
        monkeypatch.setattr("flows.execution.settings.datetime", clock)
        return settings.named("a-pr").out

    first = f"{tmp_path}/out/2030-09-01/detailed-dhca/a-pr"
    assert place(1) == first
    begun = settings.named("a-pr")
    begun.directory.create()
    keep_settings(begun.directory, begun)
    assert place(2) == first
    released(Path(first) / "pr", "a-pr")
    shutil.rmtree(begun.directory.path)
    assert place(3) == first
    assert settings.named("b-pr").out == f"{tmp_path}/out/2030-09-03/detailed-dhca/b-pr"


def released(place: Path, run: str) -> None:
    place.mkdir(parents=True)
    (place / "manifest.json").write_text(json.dumps({"run": run, "files": {}}))


def test_a_day_of_another_run_is_not_the_day_of_this_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """OUT has no {run}: what lies under earlier days, or under what is not a day, belongs to other runs."""
    clock = SimpleNamespace(now=lambda: datetime(2030, 9, 3))
    monkeypatch.setattr("flows.execution.settings.datetime", clock)
    out = f"{tmp_path}/{{date}}"
    settings = settings_for(tmp_path, "a-pr", out=out).model_copy(update={"run_id": None})
    released(tmp_path / "2030-09-01/pr", "a-pr")
    released(tmp_path / "note-xx-yy/pr", "b-pr")
    (tmp_path / "2030-09-02/.pr-c-pr.partial").mkdir(parents=True)
    days = {run: settings.named(run).out for run in ("a-pr", "b-pr", "c-pr", "d-pr")}
    assert {run: Path(day).name for run, day in days.items()} == {
        "a-pr": "2030-09-01",
        "b-pr": "2030-09-03",
        "c-pr": "2030-09-02",
        "d-pr": "2030-09-03",
    }
    with pytest.raises(ValueError, match=r"has \{date\} twice: write it once"):
        settings_for(tmp_path, "a-pr", out=f"{out}/{{date}}")


@pytest.mark.parametrize(
    ("name", "change", "fault"),
    [
        ("dry_run/dry-bottom-up", {"epsilon": "0,5"}, "epsilon: '0,5' is not a number"),
        ("dry_run/dry-detailed-dhca-us", {"jurisdiction": "uss"}, "jurisdiction: 'uss' should be 'us' or 'pr'"),
        ("detailed_dhca/detailed-dhca-pr", {"estimate": True}, "estimate: there is no such key"),
        (
            "detailed_dhca/detailed-dhca-pr",
            {"out": "s3://b/c"},
            "out: s3://b/c is a URL; give a folder",
        ),
        ("top_down/top-down-us", {"cluster": {"workers": 0}}, "cluster.workers: 0 should be greater than or equal"),
    ],
)
def test_a_wrong_parameter_is_named_in_one_line(name: str, change: dict[str, Any], fault: str) -> None:
    """What Prefect shows of the run: of a dry run only what its own system finds."""
    each = deployments(environment())[name]
    path, _, function = each["entrypoint"].partition(":")
    flow = resolve_name(f"{path.removesuffix('.py').replace('/', '.')}:{function}")
    with pytest.raises(ParameterTypeError) as error:
        flow.validate_parameters({"settings": each["parameters"]["settings"] | change})
    (line,) = str(error.value).splitlines()[1:]
    assert line.startswith(f" - settings: {fault}")


@pytest.mark.e2e
@pytest.mark.usefixtures("prefect_server", "shared_cluster")
@pytest.mark.parametrize("system", ["detailed-dhca", "top-down", "declared"])
def test_a_dry_run_says_what_a_run_would_spend_and_leaves_nothing(system: str, example: Path, tmp_path: Path) -> None:
    from flows.dry_run import dry_run
    from flows.execution.top_down_settings import DeclaredSettings, TopDownSettings

    ledger = open_account(tmp_path)
    if system == "detailed-dhca":
        real_data(example, tmp_path)
        settings: Any = settings_for(tmp_path).model_copy(update={"run_id": None})
        spends = "a run of PR would spend rho 2, charged to account census; its release: {out}/pr"
    else:
        of_blocks = system == "top-down"
        data = country(tmp_path / "country") if of_blocks else synthesize_records(DISTRICTS, tmp_path / "data")["data"]
        (data if of_blocks else data.parent).joinpath(MARK_FILE).unlink()
        names = {"out": "out", "ledger": "ledger.sqlite", "runs_folder": "state", "data": data}
        places = {name: tmp_path / place for name, place in names.items()}
        chosen = {"account": ACCOUNT, **{name: str(place) for name, place in places.items()}}
        if of_blocks:
            settings = TopDownSettings.new(**chosen | {"out": f"{tmp_path}/out/{{run}}"})
            spends = "a run of US would spend rho 2.56595, charged to account census; its release: {out}/{{run}}/us"
        else:
            settings = DeclaredSettings.new(declaration=DISTRICTS, **chosen)
            spends = "a run of DECLARED would spend rho 2, charged to account census; its release: {out}/declared"
    ended = dry_run(json.loads(settings.model_dump_json(exclude_unset=True)), return_state=True)
    assert (ended.name, ended.message) == ("Tried", spends.format(out=tmp_path / "out") + "; nothing was charged")
    assert ledger.rows(ACCOUNT) == []
    assert not list((tmp_path / "state/runs").glob("dry-*"))
    assert not (tmp_path / "out").exists()


@pytest.mark.e2e
@pytest.mark.usefixtures("prefect_server", "shared_cluster")
def test_a_dry_run_of_a_command_leaves_only_findings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, ledger, runs = country(tmp_path), open_account(tmp_path), tmp_path / "state/runs"
    (data / MARK_FILE).unlink()
    words = ("tda", "run", data, tmp_path / "out", "--dry-run", "--ledger", ledger.path)
    words = (*words, "--runs-folder", tmp_path / "state")
    assert das(*words, "--run-id", "mine") == 2
    assert das(*words, "--account", "nobody") == 1
    capsys.readouterr()
    assert das(*words, "--account", ACCOUNT, "--json") == 0
    (part,) = json.loads(capsys.readouterr().out)
    assert part["a run would spend"] == "rho 2.56595, charged to account census"
    assert part["its release"] == str(tmp_path / "out/us")
    assert (ledger.rows(ACCOUNT), list(runs.glob("dry-*")), (tmp_path / "out").exists()) == ([], [], False)
    lines = (data / "units.txt").read_text().splitlines()
    (data / "units.txt").write_text("\n".join([lines[0], f"{lines[1]}9", *lines[2:]]) + "\n")
    assert das(*words, "--account", ACCOUNT) == 1
    shown = capsys.readouterr()
    (kept,) = runs.glob("dry-*")
    assert f"report of {kept.name}" in " ".join(shown.err.split())
    assert "HH_STATUS" in shown.out
    assert [path.name for path in kept.iterdir()] == [REPORT], "nothing of the records"


@pytest.mark.usefixtures("prefect_server")
def test_a_dry_run_has_an_id_of_its_own(tmp_path: Path) -> None:
    """It removes its directory: that of a run which was stopped after its charge has the secret of its noise."""
    from flows.dry_run import dry_run

    settings = settings_for(tmp_path, "charged-pr")
    settings.directory.create()
    (settings.directory / SECRET).write_bytes(bytes(32))
    ended = dry_run(settings, return_state=True)
    assert (ended.name, ended.message) == (
        "Refused",
        "refused: run_id is 'charged-pr', but a dry run has an id of its own: leave it out",
    )
    assert (settings.directory / SECRET).exists()


@pytest.mark.ci
def test_logs_are_one_json_document_a_line(tmp_path: Path) -> None:
    program = (
        "from prefect.logging.configuration import setup_logging; setup_logging()\n"
        "from prefect.logging import get_logger\n"
        "get_logger('flow_runs').info('run %s\\nbegins', 'a-us', extra={'flow_run_name': 'US'})\n"
    )
    set_up = {"PREFECT_LOGGING_SETTINGS_PATH": str(DEPLOY / "logging.yaml"), "PREFECT_LOGGING_TO_API_ENABLED": "false"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | set_up | {"PREFECT_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    (line,) = done.stderr.splitlines()
    logged = json.loads(line)
    assert (logged["message"], logged["levelname"], logged["flow_run_name"]) == ("run a-us\nbegins", "INFO", "US")
