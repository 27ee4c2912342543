"""The redistricting products are declarations: runs of the shipped ones have the estimates of `das tda run`."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from declarations import count
from top_down_inputs import HERE, begin, country, design, finish

from privacy.accounting.ledger import Account, Ledger
from privacy.noise.query_noise import QueryNoise
from privacy.noise.randomness import RunSecret
from spine.geocodes import SpineKind
from spine.settings import Jurisdiction
from spine.top_down import Estimates, joined
from tasks.lifecycle.reservation import Charging, authorize
from tasks.records.declarations import read_raw
from tasks.synth.synthesize import synthesize_top_down
from tasks.top_down.declared.block_declarations import write_declarations
from tasks.top_down.declared.public_tables import read_declared
from tasks.top_down.declared.source import DeclaredRun
from tasks.top_down.estimate.estimators import estimate
from tasks.top_down.estimate.topdown import load_estimates
from tasks.top_down.input.block_run import TopDownRun
from tasks.top_down.input.public_input import read_public
from tasks.top_down.measure import claim
from tasks.top_down.run_plan import US
from tasks.top_down.source import FIRST, Branch, load_histograms

pytestmark = pytest.mark.usefixtures("untidy")
SECRET = bytes(range(32))
STATES = {"nation": ("23", "46"), "state": ("46",), "Puerto Rico": ("72",)}
PURE = {"mechanism": "puredp", "budget": "20"}
COLUMNS = {  # of levels of the other spines, as docs/declarations.md has them
    "conventional": {"State": ["state"], "Block_Group": ["TABBLKGRPCE"]},
    "aian": {"Block_Group": ["TABBLKGRPCE"]},
}


@pytest.fixture(autouse=True)
def same_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """One secret, and noise that only law, query and row decide: the two runs have other digests of their input."""
    made = QueryNoise.__init__

    def undigested(self: QueryNoise, *given: Any, query: str, **_: str) -> None:
        made(self, *given, query=query, input_digest="", configuration_digest="")

    monkeypatch.setattr(QueryNoise, "__init__", undigested)
    monkeypatch.setattr(RunSecret, "generate", classmethod(lambda cls: cls(SECRET)))


def on_spine(declared: dict[str, Any], kind: SpineKind) -> dict[str, Any]:
    """Return a shipped declaration with the levels of another spine."""
    columns = COLUMNS.get(kind, {})
    levels = [
        {name: level[name] for name in ("name", "share")} | {"columns": columns[level["name"]]}
        if level["name"] in columns
        else level
        for level in declared["levels"]
    ]
    return declared | {"levels": levels, "bypass": kind == "optimized"}


def declared_run(folder: Path, run: TopDownRun, product: str, changes: dict[str, str]) -> DeclaredRun:
    """Estimate the input of a run by the declaration of its product, with other values of some keys."""
    design, tables = run.design, run.tables
    blocks, _, _ = read_public(tables, design)
    assert blocks is not None
    write_declarations(blocks, design.jurisdiction, folder)
    path = folder / "changed.json"
    shipped = read_raw(str(folder / f"pl94-{product}-{design.jurisdiction}.toml"))
    path.write_text(json.dumps(on_spine(shipped, design.kind) | changes))
    records = str(folder / "records.txt")
    source = str(tables.records[product])
    rows = pd.read_parquet(source) if source.endswith("parquet") else pd.read_csv(source, sep="|", dtype=str)
    if product == "units":  # of which the file has group quarters as well
        rows = rows[rows.HH_STATUS != "0"]
    rows.to_csv(records, sep="|", index=False)
    declared, ledger = DeclaredRun(folder / "runs/declared"), folder / "ledger.sqlite"
    declared.create()
    Ledger(ledger).open_account(Account("census", design.definition, Fraction(100)))
    public, _ = read_declared(str(path))
    count(declared, records, public, design.estimator)
    authorize(Charging("census", ledger), claim(declared, HERE))
    estimate(declared, HERE)
    return declared


def nation_of(run: TopDownRun, product: str) -> Estimates:
    """The estimates of the nation."""
    return load_histograms(run.estimates_folder(Branch(product, US), US) / FIRST, Estimates)


def of_states(run: TopDownRun, product: str, level: str) -> Estimates:
    """The estimates of a level, of one state after the other."""
    return joined([load_estimates(run, branch, level) for branch in run.branches_of(product)])


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Makes a country once."""
    return cache(lambda of: country(tmp_path_factory.mktemp("country"), STATES[of]))


# Half of the cases have every pair of product, law and estimator.
CASES = [
    pytest.param(
        *(product, estimator, changes),
        id=f"{product}-{estimator}-{'puredp' if changes else 'zcdp'}",
        marks=[pytest.mark.ci]
        * ((product == "units") ^ (estimator == "gls") ^ bool(changes) or (product, estimator) == ("persons", "gls")),
    )
    for product in ("persons", "units")
    for estimator in ("topdown", "gls")
    for changes in ({}, PURE)
]


@pytest.mark.parametrize(("product", "estimator", "changes"), CASES)
@pytest.mark.parametrize(
    ("of", "kind"),
    [
        ("nation", "optimized"),
        pytest.param("Puerto Rico", "conventional", marks=pytest.mark.ci),
        *(
            pytest.param(*each, marks=pytest.mark.long)
            for each in (
                ("nation", "aian"),
                ("nation", "conventional"),
                ("state", "optimized"),  # below a root that is the state
                ("Puerto Rico", "optimized"),
            )
        ),
    ],
)
def test_a_shipped_product_is_estimated_as_the_redistricting_data(
    tmp_path: Path,
    places: Callable[[str], Path],
    product: str,
    of: str,
    kind: SpineKind,
    estimator: Any,
    changes: dict[str, str],
) -> None:
    """On every spine, with the US level; the levels of a declaration are changed to those of the other spines.

    Under pure DP the spine of a declaration is bypassed at only children alone, and so is this run's.
    """
    hold_against_each_other(tmp_path, places(of), product, kind, estimator, changes)


@pytest.mark.long
@pytest.mark.parametrize(("product", "estimator", "changes"), CASES)
@pytest.mark.parametrize("kind", ["optimized", "aian", "conventional"])
def test_rhode_island_is_estimated_as_the_redistricting_data(
    tmp_path: Path, das_data: Path, product: str, kind: SpineKind, estimator: Any, changes: dict[str, str]
) -> None:
    data = synthesize_top_down(das_data / "ri_blocks_2020.csv.gz", tmp_path / "data", seed=1).data
    hold_against_each_other(tmp_path, data, product, kind, estimator, changes)


def hold_against_each_other(
    tmp_path: Path, data: Path, product: str, kind: SpineKind, estimator: Any, changes: dict[str, str]
) -> None:
    """Estimate data by a run and by its product's declaration: every geounit of every level has the same counts."""
    pure: dict[str, Any] = {"definition": "puredp", "budget": Fraction(20)} if changes else {}
    jurisdiction: Jurisdiction = "pr" if "\n72" in (data / "states.csv").read_text() else "us"
    nation = True if jurisdiction == "us" else None
    made = design(jurisdiction, (product,), estimator=estimator, nation=nation, kind=kind, measurements="none", **pure)
    made = replace(made, settings={product: replace(made.settings[product], split=())})
    run = begin(tmp_path, data, made, SECRET)
    finish(run, tmp_path, before="release")
    folder = tmp_path / "declared"
    folder.mkdir(0o700)
    declared = declared_run(folder, run, product, changes)
    spine, totals = declared.declared.hierarchy.spine, declared.declared.bounds.totals
    assert [level for level, known in zip(spine.levels, totals, strict=True) if known][-1] in ("State", "Block")
    for level in spine.levels:
        own = load_estimates(declared, declared.branch, level)
        released = nation_of(run, product) if level == US else of_states(run, product, level)
        assert len(own) == len(released) == len(spine.starts[spine.levels.index(level)])
        for name in ("starts", "cell", "count"):
            assert np.array_equal(getattr(own, name), getattr(released, name)), level
