"""A worker's policy: what a caller of Prefect's API may choose, for every flow."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from flows import prefect_flows
from flows.dry_run import dry_run
from flows.execution.cluster import ClusterSettings
from flows.execution.policy import DRY_RUN, POLICY, SPINE, rules_of, setting_names, under_policy
from flows.execution.safetab_settings import DetailedDhcaSettings
from flows.execution.systems import SYSTEMS
from flows.geographic_spine import SpineRun, geographic_spine
from tasks.errors import Refused

Fix = Callable[..., None]
EXAMPLE = Path(__file__).resolve().parents[2] / "deploy/policy.json"
FLOWS: dict[str, Any] = {name: {} for name in (*SYSTEMS, SPINE, DRY_RUN)}
FIXED = "account is 'mine', and the policy of this worker fixes it at 'census': leave it out"


@pytest.fixture
def policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fix:
    """Write the policy that the environment names: of the Detailed DHC-A, and sections in place of others."""
    monkeypatch.setenv(POLICY, str(tmp_path / "policy.json"))

    def write(detailed: Any = None, **sections: Any) -> None:
        own = {"detailed-dhca": detailed or {}}
        (tmp_path / "policy.json").write_text(json.dumps(FLOWS | own | sections))

    return write


def only(folder: Path, **changes: Any) -> DetailedDhcaSettings:
    """Settings with what a run must have, and changes; every other is left out."""
    required = {name: str(folder / name) for name in ("params", "data", "out")}
    return DetailedDhcaSettings.model_validate({**required, "jurisdiction": "us", **changes})


REQUIRED = ["params", "data", "out", "jurisdiction"]


def test_a_setting_is_as_fixed_or_as_by_default_unless_it_may_be_set(tmp_path: Path, policy: Fix) -> None:
    fixed = {"approval": True, "account": "census", "cluster.memory_limit": "3GiB"}
    policy({"fixed": fixed, "may_set": [*REQUIRED, "cluster.workers"]})
    left_out = only(tmp_path, cluster={"workers": 2})
    made = left_out.model_copy(
        update={"approval": True, "account": "census", "cluster": ClusterSettings(workers=2, memory_limit="3GiB")}
    )
    assert under_policy(left_out, "detailed-dhca") == made
    assert under_policy(made, "detailed-dhca") == made, "a caller may say what is so anyway"
    for changes, said in (
        ({"account": "mine"}, FIXED),
        ({"approval": False}, "approval is False, and the policy of this worker fixes it at True: leave it out"),
        ({"sign": "/key"}, "sign is '/key', and the policy of this worker fixes it at None: leave it out"),
        ({"run_id": "a"}, "run_id is 'a', and the policy of this worker fixes it at None: leave it out"),
        ({"cluster": {"tls_key": "/k"}}, "cluster.tls_key is '/k', and the policy of this worker fixes it at None: "),
        ({"cluster": {"memory_limit": "9GiB"}}, "cluster.memory_limit is '9GiB', and the policy of this worker fixes"),
    ):
        with pytest.raises(Refused, match=said):
            under_policy(only(tmp_path, **changes), "detailed-dhca")


def test_a_setting_may_be_one_of_several(tmp_path: Path, policy: Fix) -> None:
    data = [str(tmp_path / "data"), "/srv/pr"]
    policy({"may_set": ["params", "out", "jurisdiction"], "one_of": {"data": data, "account": ["a", "b"]}})
    for given in data:
        assert under_policy(only(tmp_path, data=given), "detailed-dhca").data == given
    assert under_policy(only(tmp_path), "detailed-dhca").account == "a", "left out, it is the first"
    with pytest.raises(Refused, match=r"data is '/x', and the policy of this worker allows only '.*' or '/srv/pr'"):
        under_policy(only(tmp_path, data="/x"), "detailed-dhca")
    policy({"may_set": ["params", "out", "jurisdiction"]})
    with pytest.raises(Refused, match=r"data is .*, and the policy of this worker neither fixes it nor lets a caller"):
        under_policy(only(tmp_path), "detailed-dhca")


def test_what_all_flows_share_is_in_one_section_and_a_dry_run_is_under_its_system(tmp_path: Path, policy: Fix) -> None:
    shared = {"fixed": {"account": "census", "cluster.workers": 2}, "may_set": ["out"]}
    policy({"may_set": ["params", "data", "jurisdiction"]}, all=shared, **{SPINE: {"may_set": ["geography"]}})
    run = under_policy(only(tmp_path), "detailed-dhca", DRY_RUN)
    assert (run.account, run.cluster.workers) == ("census", 2)
    spine = SpineRun(geography="/g", out="/o", cluster=ClusterSettings())
    assert under_policy(spine, SPINE) == spine.model_copy(update={"cluster": ClusterSettings(workers=2)})
    alone = SpineRun(geography="/g", out="/o")
    assert under_policy(alone, SPINE) == alone
    (tmp_path / "policy.json").write_text(json.dumps({"all": shared, "detailed-dhca": {}}))
    for flow in (SPINE, DRY_RUN):
        with pytest.raises(Refused, match=f"the policy of this worker has no section {flow}: that flow cannot be star"):
            under_policy(only(tmp_path), flow)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "No such file"),
        ("{", "Expecting"),
        ("[]", "it is an object of sections"),
        ('{"account": "x"}', "there is no flow account"),
        ('{"detailed-dhca": {"acount": "x"}}', "there is no acount: write may_set, fixed and one_of"),
        ('{"detailed-dhca": {"may_set": ["cluster"]}}', "there is no setting cluster"),
        ('{"detailed-dhca": {"fixed": {"cluster.nanny": 1}}}', "there is no setting cluster.nanny"),
        ('{"detailed-dhca": {}, "all": {"may_set": ["params"]}}', "there is no setting params"),
        ('{"detailed-dhca": {"fixed": {"account": "a"}, "may_set": ["account"]}}', "account is fixed and may be set"),
        (
            '{"detailed-dhca": {"fixed": {"account": "a"}}, "all": {"fixed": {"account": "a"}}}',
            "account is there twice",
        ),
        ('{"detailed-dhca": {"one_of": {"account": []}}}', "one_of lists no values of account"),
        ('{"detailed-dhca": {"one_of": {"account": "ab"}}}', "one_of lists no values of account"),
        ('{"detailed-dhca": {"fixed": {"approval": 9}, "may_set": ["params", "data", "out"]}}', "valid boolean"),
        ('{"detailed-dhca": {"fixed": []}}', "each an object of may_set"),
    ],
)
def test_a_policy_that_is_none_refuses_every_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, why: str
) -> None:
    monkeypatch.setenv(POLICY, str(tmp_path / "policy.json"))
    if text:
        (tmp_path / "policy.json").write_text(text)
    with pytest.raises(Refused, match=rf"the policy of this worker, .*policy\.json, cannot be used: .*{why}"):
        under_policy(only(tmp_path), "detailed-dhca")


def flows() -> dict[str, Any]:
    """Every flow of the program, by name."""
    of_systems = [getattr(prefect_flows, name.replace("-", "_")) for name in SYSTEMS]
    return {flow.name: flow for flow in (*of_systems, geographic_spine, dry_run)}


OUT = "/srv/releases/{date}/{product}/{run}"
CLUSTER = ClusterSettings()


def allowed(system: str) -> BaseModel:
    """Settings of a run as the example fixes them; whatever it leaves out has its default."""
    kind = SYSTEMS[system].part("settings_class")
    rules = rules_of(json.loads(EXAMPLE.read_text()), kind, [system])
    values = {name: those[0] for name, those in rules.values.items()}
    needed = [name for name, about in kind.model_fields.items() if about.is_required()]
    return kind.model_validate({name: values.get(name, "us") for name in needed} | {"out": OUT})


ALLOWED = {name: allowed(name) for name in SYSTEMS}
ALLOWED[SPINE] = SpineRun(geography="/srv/census/data/GRF-C.txt", cluster=CLUSTER, out=OUT)


def others(model: BaseModel, name: str) -> Iterator[BaseModel]:
    """Yield the model with another value of one setting, by name, as a caller may send it: of every type that fits."""
    first, _, rest = name.partition(".")
    if rest:
        for part in others(getattr(model, first), rest):
            yield model.model_copy(update={first: part})
        return
    values = ("x", "/etc/passwd", 7, 0.5, True, False, ("x",), (7,), (("x",),), {"x": "y"}, "pr", "gls", "text")
    more = ("nmf", "nonnegative", "puredp", "zcdp", "paper", "dhc-units", "aian", "1", ("units",))
    for value in (*values, *more):
        try:
            given = {name: getattr(model, name) for name in model.model_fields_set}
            changed = type(model).model_validate(given | {first: value})
        except ValueError:
            continue
        if getattr(changed, first) != getattr(model, first):
            yield changed


@pytest.mark.parametrize(
    "flow", [pytest.param(flow, marks=[pytest.mark.ci] * (at % 3 > 0)) for at, flow in enumerate(ALLOWED)]
)
def test_under_the_example_a_caller_sets_only_what_it_lists(flow: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(POLICY, str(EXAMPLE))
    model, listed = under_policy(ALLOWED[flow], flow), set(json.loads(EXAMPLE.read_text())[flow].get("may_set", ()))
    for name in setting_names(type(model)):
        tried = list(others(model, name))
        assert tried, f"no other value of {name} is known to this test"
        for changed in tried:
            if name in listed:
                under_policy(changed, flow)
            else:
                with pytest.raises(
                    Refused, match=f"^{name} is .*, and the policy of this worker (fixes it at|allows only)"
                ):
                    under_policy(changed, flow)


def test_the_example_names_every_flow_and_every_parameter_of_a_flow_is_under_it() -> None:
    """A parameter of its own would pass by the policy, as `cluster` of the spine did."""
    found = flows()
    assert found.keys() == json.loads(EXAMPLE.read_text()).keys() - {"all"} == {*SYSTEMS, SPINE, DRY_RUN}
    parameters = {name: list(flow.parameters.properties) for name, flow in found.items()}
    assert parameters == {name: ["run" if name == SPINE else "settings"] for name in found}
    assert ALLOWED.keys() == found.keys() - {DRY_RUN}


def settings_of(folder: Path) -> dict[Any, Any]:
    """Settings for each flow, with an account that the policy does not allow."""
    common = {"out": str(folder / "out"), "runs_folder": str(folder / "state"), "account": "mine"}
    made = {name: ALLOWED[name].model_copy(update=common) for name in SYSTEMS}
    return {SYSTEMS[name].part("flow"): each for name, each in made.items()} | {dry_run: made["detailed-dhca"]}


@pytest.mark.usefixtures("no_server")
def test_every_flow_is_under_the_policy(tmp_path: Path, policy: Fix) -> None:
    rest = {name: {"may_set": [*setting_names(type(model))]} for name, model in ALLOWED.items()}
    for section in rest.values():
        section["may_set"] = [name for name in section["may_set"] if name not in ("account", "cluster.cluster_class")]
    rest[SPINE]["may_set"].remove("extra")
    policy(rest.pop("detailed-dhca"), all={"fixed": {"account": "census"}}, **rest)
    for flow, settings in settings_of(tmp_path).items():
        state = flow(settings, return_state=True)
        assert (state.name, state.message) == ("Refused", f"refused: {FIXED}"), flow.name
    assert not (tmp_path / "state").exists(), "nothing was begun"
    for changes, said in (
        ({"cluster": ClusterSettings(cluster_class="os:system")}, "cluster.cluster_class is 'os:system', and the pol"),
        ({"extra": "/etc/passwd"}, "extra is '/etc/passwd', and the policy"),
    ):
        with pytest.raises(Refused, match=said):
            geographic_spine(SpineRun(geography=str(tmp_path), out=str(tmp_path / "spine"), **changes))
