"""Runs of a declaration from files to a release; the shipped declarations; what is refused before the charge."""

from __future__ import annotations

import copy
import csv
import json
import random
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from declarations import (
    BASE,
    LEAVES,
    TOTALS,
    Row,
    changed,
    count,
    declare_blocks,
    exactly,
    figures_of,
    hierarchy_of,
    persons,
    plan_of,
    write,
)
from dhca_inputs import HERE
from forgeries import check_tables
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import das_flows
from flows.commands.show import open_release
from flows.execution.runner import InProcess
from flows.execution.top_down_settings import DeclaredSettings
from flows.frames import read_release
from flows.reports.show.release_pages import SHORT
from flows.reports.show.view import NotThere
from flows.top_down import check_declared
from privacy.accounting.composition import Spend, read_spend
from privacy.accounting.ledger import Account, Ledger
from privacy.noise.laws import DiscreteGaussian, Law, TwoSidedGeometric
from privacy.noise.margins import Z95, coverage
from privacy.noise.query_noise import QueryNoise
from privacy.noise.randomness import RunSecret
from spine.declaration.declaration import read_declaration
from spine.redistricting import PERSONS, UNITS, redistricting_declaration
from spine.settings import Jurisdiction
from spine.top_down import Passes, query_group
from spine.top_down.histogram import Product
from tasks.errors import Refused
from tasks.lifecycle.run_directory import RunDirectory
from tasks.records.block_codes import BLOCK_COLUMNS
from tasks.records.declarations import SHIPPED, read_raw
from tasks.records.files import digest_file, file_name
from tasks.records.findings import Finding, load_findings
from tasks.records.marks import write_mark
from tasks.releases.digests import file_digest
from tasks.releases.manifest import read_manifest
from tasks.top_down.check.declaration import checks
from tasks.top_down.choices import ESTIMATORS, Estimator
from tasks.top_down.declared import public_tables
from tasks.top_down.declared.accuracy import measure_errors, write_report
from tasks.top_down.declared.explain import explain, memory
from tasks.top_down.declared.measurements import read_measurements
from tasks.top_down.declared.public_tables import Declared, Faulty, read_declared
from tasks.top_down.declared.release import COVERAGE, write_release
from tasks.top_down.declared.source import DeclaredRun, open_data
from tasks.top_down.declared.synth import synthesize_records
from tasks.top_down.declared.tables import description, geounit_columns
from tasks.top_down.estimate.topdown import load_estimates
from tasks.top_down.published.estimate import write_estimate
from tests.conftest import UNTIDY


@pytest.fixture(autouse=True, scope="module")
def fixed_secret() -> Iterator[None]:
    """The same noise in every test run: none here is about chance."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunSecret, "generate", classmethod(lambda cls: cls(bytes(range(32)))))
        yield


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The staged release of the small country. Copy before you change it."""
    folder = tmp_path_factory.mktemp("small")
    return run_at(folder, *write(folder), tidy=True)[1]


@pytest.fixture
def copied(staged: Path, tmp_path: Path) -> Path:
    """A copy of the release of the small country."""
    return Path(shutil.copytree(staged, tmp_path / "release"))


def find_faults(declaration: str) -> tuple[Finding, ...]:
    """What is wrong with a declaration that does not pass."""
    with pytest.raises(Faulty) as faults:
        read_declared(declaration)
    return faults.value.args


def run_at(
    folder: Path, declaration: str, data: str, estimator: Estimator = "topdown", *, tidy: bool = False
) -> tuple[DeclaredRun, Path]:
    """Run a declaration in this process; return its directory and its staged release, with tables/ if `tidy`."""
    ledger = folder / "ledger.sqlite"
    if not ledger.exists():
        Ledger(ledger).open_account(Account("census", "zcdp", Fraction(100)))
    settings = DeclaredSettings(
        data=data,
        declaration=declaration,
        estimator=estimator,
        out=str(folder),
        account="census",
        runs_folder=str(folder),
        ledger=str(ledger),
        run_id="r1",
    )
    runner = InProcess(settings, HERE, before="commit")
    runner.directory.create()
    with pytest.MonkeyPatch.context() as patch:
        if not tidy:
            patch.setattr(*UNTIDY)
        runner.run()
    return settings.directory, runner.staged


def test_a_file_of_the_other_jurisdictions_records_alone_is_refused_before_the_charge(tmp_path: Path) -> None:
    """It was charged, and not one record of it was counted."""
    declaration, header = str(declare_blocks(tmp_path, "31", "31")), ",".join(BLOCK_COLUMNS)
    rows = ["72,001,000100,1001,1"] * 5
    data = tmp_path / "records.csv"
    data.write_text("\n".join([f"{header},SEX", *rows, ""]))
    with pytest.raises(Refused, match="does not pass validation"):
        run_at(tmp_path, declaration, str(data))
    (finding,) = load_findings(RunDirectory(tmp_path / "runs/r1"))
    assert (finding.rule, finding.rows) == ("all records are of other states", 5)
    assert Ledger(tmp_path / "ledger.sqlite").spent("census") == {}
    (tmp_path / "some").mkdir(0o700)
    data.write_text("\n".join([f"{header},SEX", "31,001,000100,1001,1", *rows, ""]))
    run, _ = run_at(tmp_path / "some", declaration, str(data))
    assert [(each.rule, each.rows) for each in load_findings(run)] == [("records of other states, left out", 5)]


def truth_of(rows: list[Row], columns: list[str]) -> dict[tuple[str, ...], int]:
    """Count records by codes of the hierarchy and the axes, ages of 5 and over as one."""
    codes = {zone: [LEAVES[name][at] for name in columns] for at, zone in enumerate(LEAVES["zone"])}
    ages = {str(age): str(age) if age < 5 else "5-9" for age in range(10)}
    return Counter((*codes[zone], dw, sex, ages[age]) for zone, dw, sex, age in rows)


def released(staged: Path, level: str) -> dict[tuple[str, ...], int]:
    table = pd.read_parquet(staged / f"parquet/{level}.parquet")
    return {row[:-1]: row[-1] for row in table.itertuples(index=False, name=None)}


COLUMNS = {"nation": [], "region": ["region"], "district": ["region", "district"]}
COLUMNS["zone"] = [*COLUMNS["district"], "zcode"]


def test_a_key_of_several_columns_places_every_record_whatever_its_codes_joined_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(QueryNoise, "add_to", lambda *_: None)
    leaves = pd.DataFrame(LEAVES | {"district": ["11", "9", "1", "9", "9"], "zcode": ["1", "1", "11", "1", "2"]})
    key = COLUMNS["zone"]
    path, _ = write(tmp_path, BASE | {"leaves": {"file": "zones.csv", "key": key}})
    leaves.drop(columns="zone").to_csv(tmp_path / "zones.csv", index=False)  # 1, 11, 1 and 1, 1, 11 are two leaves
    made = synthesize_records(path, tmp_path / "records", seed=1)["data"]
    records = pd.read_csv(made, dtype=str)
    assert list(records.columns[:3]) == key
    _, staged = run_at(tmp_path, path, str(made))
    found = pd.read_parquet(staged / "parquet/zone.parquet").groupby(key)["COUNT"].sum()
    expected = records.groupby(key).size()
    assert found[found > 0].to_dict() == expected.to_dict()
    assert {("1", "11", "1"), ("1", "1", "11")} <= set(expected.index)
    assert das_flows.top_down(records, path).levels["zone"].groupby(key)["COUNT"].sum().sum() == len(records)


def test_a_release_keeps_every_declared_figure_and_its_sums_and_passes_its_checks(staged: Path) -> None:
    manifest = read_manifest(staged)
    found = [*check_tables(staged, manifest, description(manifest)), *checks(staged, manifest)]
    assert [each for each in found if each.faults] == []
    zones = pd.read_parquet(staged / "parquet/zone.parquet")
    truth = Counter(LEAVES["region"][LEAVES["zone"].index(row[0])] for row in persons())
    assert zones.groupby("region")["COUNT"].sum().to_dict() == truth
    inside = zones[zones["dwelling"] == "2"]
    by_zone = inside.groupby(["region", "district", "zcode"])["COUNT"].sum().to_dict()
    for zone, number in enumerate(map(int, LEAVES["institutions"])):
        codes = tuple(LEAVES[name][zone] for name in COLUMNS["zone"])
        assert by_zone.get(codes, 0) >= number
        assert (by_zone.get(codes, 0) > 0) == (number > 0)
    assert not inside["age"].isin(["0", "1"]).any()
    assert released(staged, "zone") != truth_of(persons(), COLUMNS["zone"])  # there is noise


@pytest.mark.parametrize(
    ("forged", "fault"),
    [
        (lambda value: [*value[1:], None], "an answer is missing"),
        (lambda value: value[1:], "of another length than it has coordinates"),
        (lambda value: [*value[1:], 2**40], "a value more than 40 standard deviations"),
    ],
)
def test_answers_that_nobody_can_have_drawn_are_found(
    copied: Path, forged: Callable[[list[int]], list[int | None]], fault: str
) -> None:
    path = copied / "measurements/zone.parquet"
    table = pq.read_table(path)
    first, *others = table["value"].to_pylist()
    values = pa.array([forged(first), *others], table.schema.field("value").type)
    pq.write_table(table.set_column(table.column_names.index("value"), "value", values), path)
    (found,) = (each for each in checks(copied, read_manifest(copied)) if each.faults)
    assert fault in found.faults[0]


def test_counts_of_cells_that_are_declared_zeros_are_found(copied: Path) -> None:
    """All levels have them, so they add up."""
    for level in COLUMNS:
        path = copied / f"parquet/{level}.parquet"
        table = pq.read_table(path)
        ages = ["0" if row["dwelling"] == "2" else row["age"] for row in table.select(["dwelling", "age"]).to_pylist()]
        pq.write_table(table.set_column(table.column_names.index("age"), "age", pa.array(ages)), path)
    (found,) = (each for each in checks(copied, read_manifest(copied)) if each.faults)
    assert "counts are of cells that no record can be in" in found.faults[0]


@pytest.mark.parametrize(
    "name", ["/etc/hostname", "../zones.csv", "https://example.org/zones.csv", "zip::zones.csv", "link.csv"]
)
@pytest.mark.parametrize("key", ["leaves.file", "totals.0.file", "equal.0.release"])
def test_a_declaration_names_nothing_outside_of_its_folder(tmp_path: Path, name: str, key: str) -> None:
    """Somebody else may have written it: nothing is opened, and no line of it is shown."""

    def elsewhere(raw: dict[str, Any]) -> None:
        part, *at, last = key.split(".")
        if part == "equal":
            raw |= {"counts": [], "equal": [{"partition": "sex", "release": name}]}
        else:
            (raw[part][0] if at else raw[part])[last] = name

    (tmp_path / "zones.csv").write_text("SECRET\n")
    path, _ = write(tmp_path / "received", changed(elsewhere))
    (tmp_path / "received/link.csv").symlink_to("../zones.csv")
    (found,) = find_faults(path)
    assert (found.column, "not in the folder of the declaration" in found.rule) == (key, True)


def test_a_table_of_many_cells_and_queries_is_explained_without_a_pass_over_its_cells_for_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In seconds, up to the most cells and queries that are allowed: queries are compared by their axes."""
    names = [f"a{number}" for number in range(18)]
    asked = ["*".join(each) for each in combinations(names, 2)][:58]
    axes = {name: {"column": name, "values": ["1", "2"]} for name in names}
    shares = {"total": "1/4", "detailed": "1/4"} | dict.fromkeys(asked, f"1/{2 * len(asked)}")
    path, _ = write(tmp_path, BASE | {"axes": axes, "recodes": {}, "zeros": [], "counts": [], "queries": shares})
    passes = []
    partition = Product.partition
    monkeypatch.setattr(Product, "partition", lambda own, query: passes.append(query) or partition(own, query))
    assert explain(read_declared(path)[1]).cells == 1 << 18
    assert not {*passes} & {*asked}


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where a document of JSON has a value."""
    if at:
        yield at
    for key in value if isinstance(value, dict) else range(len(value) if isinstance(value, list) else 0):
        yield from places(value[key], (*at, key))


def mutated(value: Any, at: tuple[Any, ...], new: Any) -> Any:
    """A document with another value in one place; without it where the new one is `...`."""
    value = inner = copy.deepcopy(value)
    for key in at[:-1]:
        inner = inner[key]
    if new is ...:
        del inner[at[-1]]
    else:
        inner[at[-1]] = new
    return value


def test_a_changed_description_of_measurements_is_refused_by_its_key_or_read(copied: Path) -> None:
    """Somebody else may have written it: whatever a key holds, there is no other error than a refusal."""
    file = copied / "measurements/declared.json"
    content = json.loads(file.read_text())
    text = json.loads(content["text"])
    values = (..., None, 1.5, "", "x", [], {}, [[]], 1 << 70)
    outer = [mutated(content, at, new) for at in places(content) for new in values]
    inner = [content | {"text": json.dumps(mutated(text, at, new))} for at in places(text) for new in values]
    known = [
        (("leaves", "key"), ""),
        (("leaves", "key"), "x"),
        (("levels", 1, "columns"), ""),
        (("totals", 0, "of"), ""),
    ]
    named = [(at[0], content | {"text": json.dumps(mutated(text, at, new))}) for at, new in known]
    named += [(key, mutated(content, (key,), ...)) for key in ("text", "totals", "digests", "run", "synthetic")]
    named += [("totals", mutated(content, ("totals", 0, "1"), 1 << 70)), ("totals", content | {"totals": []})]
    for key, changed_content in named:
        file.write_text(json.dumps(changed_content))
        with pytest.raises(Refused, match=key):
            public_tables.assemble(read_measurements(copied).public)
    for changed_content in random.Random(1).sample(outer + inner, 60):
        file.write_text(json.dumps(changed_content))
        with suppress(Refused):
            public_tables.assemble(read_measurements(copied).public)


def test_the_budget_is_charged_once_and_the_noise_has_the_address_of_the_declaration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = []
    made = QueryNoise.__init__

    def remember(self: QueryNoise, *given: Any, query: str, **more: Any) -> None:
        names.append(query)
        made(self, *given, query=query, **more)

    monkeypatch.setattr(QueryNoise, "__init__", remember)
    _, staged = run_at(tmp_path, *write(tmp_path))
    assert {name.split("/")[1] for name in names} == {"small"}
    assert set(names) >= {"tda/small/nation/total", "tda/small/zone/detailed", "tda/small/district/dwelling*young"}
    (row,) = Ledger(tmp_path / "ledger.sqlite").rows("census")
    assert row.amount == 2
    spend = read_spend(read_manifest(staged)["spent"])
    sentences = {relation.key: (relation.sentence, relation.figure) for relation in spend.relations}
    assert sentences["replaced_within"] == (
        "a person replaced by another of its region, all declared figures unchanged",
        2,
    )
    assert sentences["added_or_removed"][1] is sentences["moved"][1] is None


def test_without_a_declared_total_adding_a_record_is_covered_at_half_the_budget_and_the_total_is_measured(
    tmp_path: Path,
) -> None:
    raw = changed(lambda raw: raw.update(totals=[]))
    _, staged = run_at(tmp_path, *write(tmp_path, raw))
    relations = {each.key: each.figure for each in read_spend(read_manifest(staged)["spent"]).relations}
    assert relations == {"replaced": 2, "added_or_removed": 1}
    alone = spend_of_raw(raw | {"counts": [], "zeros": []}).relations
    assert [each.sentence for each in alone] == ["a person replaced by another", "a person added or removed"]
    (nation,) = (
        row.value[0]
        for row in pd.read_parquet(staged / "measurements/nation.parquet").itertuples()
        if row.query == "total"
    )
    assert pd.read_parquet(staged / "parquet/nation.parquet")["COUNT"].sum() == nation  # no excess


def spend_of_raw(raw: dict[str, Any], totals: dict[str, int] = TOTALS, leaves: dict[str, list[str]] = LEAVES) -> Spend:
    """What a run of a declaration spends, with the tables of the small country."""
    hierarchy = hierarchy_of(raw, leaves)
    figures = figures_of(hierarchy, leaves, totals)
    bounds = plan_of(raw, leaves, totals).bounds
    return Declared(hierarchy.declaration, hierarchy, figures, bounds).spend


DWELLINGS = {"partition": "dwelling", "columns": ["homes", "institutions"]}


@pytest.mark.parametrize(
    ("counts", "within"),
    [
        (exactly("dwelling*sex", 4), "zone and its dwelling and its sex"),
        (exactly("sex", 2), "zone and its sex"),
        (exactly("total", 1) | {"least": [3], "most": [3]}, "zone"),
        (DWELLINGS | {"least": [0, 2], "most": ["", 2]}, "zone and its dwelling"),
        (DWELLINGS | {"columns": ["", "homes"], "least": [1, 1], "most": [1, 1]}, "zone and its dwelling"),
        (DWELLINGS | {"least": [1, 1], "most": [2, 9]}, ""),
        (DWELLINGS | {"columns": ["homes", ""], "least": [0, 2], "most": ["", 2]}, ""),
    ],
)
def test_counts_that_say_the_number_of_records_are_declared_totals(counts: dict[str, Any], within: str) -> None:
    """Nobody can be added to such a part, or replaced by one of another: no such claim is made, even of some parts."""
    relations = spend_of_raw(changed(lambda raw: raw.update(totals=[], counts=[counts]))).relations
    figures = {each.key: each.figure for each in relations}
    if not within:
        assert figures == {"replaced": 2, "added_or_removed": 1}
        return
    assert figures == {"replaced_within": 2, "added_or_removed": None, "moved": None}
    unchanged = "all declared figures unchanged"
    assert relations[0].sentence == f"a person replaced by another of its {within}, {unchanged}"
    assert relations[2].sentence == f"a person replaced by one of another {within.replace(' and its ', ' or ')}"


def test_several_counts_that_fix_a_number_only_together_are_a_declared_total() -> None:
    """As many of each sex as are counted at least, and as many in all at most: nobody can come or go in any zone."""
    both = [str(int(one) + int(other)) for one, other in zip(LEAVES["homes"], LEAVES["institutions"], strict=True)]
    counts = [
        {"partition": " sex", "columns": ["homes", "institutions"], "least": [1, 1]},
        {"partition": "total", "columns": ["both"], "most": [1]},
    ]
    raw = changed(lambda raw: raw.update(totals=[], counts=counts, zeros=[]))
    figures = {each.key: each.figure for each in spend_of_raw(raw, leaves=LEAVES | {"both": both}).relations}
    assert figures == {"replaced_within": 2, "added_or_removed": None, "moved": None}


def test_a_count_of_records_next_to_totals_narrows_the_relation() -> None:
    found = spend_of_raw(changed(lambda raw: raw.update(counts=[exactly("sex", 2)])), {"1": 18, "2": 12}).relations
    assert found[0].sentence.startswith("a person replaced by another of its region and its zone and its sex,")


@pytest.mark.parametrize("of", ["counts", "totals"])
def test_groups_whose_names_are_too_long_for_a_sentence_are_refused(tmp_path: Path, of: str) -> None:
    def lengthen(raw: dict[str, Any]) -> None:
        raw["axes"] |= {name * 64: {"column": name, "values": "0-1"} for name in "ab"}
        raw["counts"] = [exactly(f"{'a' * 64}*{'b' * 64}", 4)]
        if of == "totals":
            raw["levels"][1]["name"] = "region" * 10
            raw.update(totals=[{"of": "region" * 10, "file": "regions.csv"}])
        else:
            raw["totals"] = []

    path, _ = write(tmp_path, changed(lengthen))
    (tmp_path / "regions.csv").write_text("region,total\n1,36\n2,24\n")  # as counted
    (found,) = find_faults(path)
    assert (found.column, "too long for one sentence" in found.rule) == (of, True)


def test_a_declaration_that_asks_the_cells_alone_is_estimated(tmp_path: Path) -> None:
    """No sum is rounded before the cells."""
    raw = changed(
        lambda raw: raw.update(queries={"detailed": "1"}, counts=[], totals=[{"of": "zone", "file": "z.csv"}])
    )
    declaration, data = write(tmp_path, raw)
    number, codes = Counter(row[0] for row in persons()), zip(*(LEAVES[name] for name in COLUMNS["zone"]), strict=True)
    lines = [",".join((*code, str(number[zone]))) for zone, code in zip(LEAVES["zone"], codes, strict=True)]
    (tmp_path / "z.csv").write_text("\n".join(["region,district,zcode,total", *lines, ""]))
    _, staged = run_at(tmp_path, declaration, data)
    assert sum(released(staged, "zone").values()) == len(persons())


def test_a_release_names_its_files_and_no_folder(tmp_path: Path) -> None:
    def elsewhere(raw: dict[str, Any]) -> None:
        raw["leaves"]["file"] = str(tmp_path / "zones.csv")
        raw["totals"][0]["file"] = str(tmp_path / "regions.csv")

    _, staged = run_at(tmp_path, *write(tmp_path, changed(elsewhere)))
    manifest = read_manifest(staged)
    assert set(manifest["public_files"]) == {"zones.csv", "regions.csv"}
    assert manifest["declaration"]["totals"][0]["file"] == "regions.csv"
    for path in staged.rglob("*"):
        assert path.is_dir() or str(tmp_path).encode() not in path.read_bytes()
    assert file_name("https://who:secret@host/a/b.csv?token=1#c") == "b.csv"


def test_two_public_files_of_one_name_are_refused(tmp_path: Path) -> None:
    declaration, _ = write(tmp_path, changed(lambda raw: raw["totals"][0].update(file="other/zones.csv")))
    assert {found.column for found in find_faults(declaration)} == {"totals"}


def test_a_public_file_that_changes_before_its_digest_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declaration, _ = write(tmp_path)

    def change(path: str) -> str:
        Path(path).write_text(Path(path).read_text(encoding="utf-8") + "3,0\n", encoding="utf-8")
        return digest_file(path)

    monkeypatch.setattr(public_tables, "digest_file", change)
    with pytest.raises(Refused, match="changed while it was read"):
        read_declared(declaration)


def test_geounits_are_measured_fewer_at_a_time_where_answers_are_many(
    tmp_path: Path, staged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(public_tables, "AT_ONCE", 50)
    declaration, data = write(tmp_path)
    assert read_declared(declaration)[1].plan.rows == 1
    assert released(run_at(tmp_path, declaration, data)[1], "zone") == released(staged, "zone")


@pytest.mark.ci
def test_a_declaration_that_no_worker_can_hold_is_refused_before_its_records_are_read(tmp_path: Path) -> None:
    def wide(raw: dict[str, Any]) -> None:
        raw["axes"]["age"]["values"] = "0-499999"
        raw["recodes"], raw["zeros"] = {}, []
        raw["queries"] = {"total": "1/2", "detailed": "1/2"}

    declaration, _ = write(tmp_path, changed(wide))
    settings = DeclaredSettings.new(data="none.csv", declaration=declaration, out="out", cluster={"workers": 1000})
    with pytest.raises(Refused, match=r"needs [0-9,]+ MiB of memory in a worker, and each has"):
        check_declared(settings)


def test_least_squares_over_the_tree_needs_the_information_of_a_level_as_well(tmp_path: Path) -> None:
    declared = read_declared(write(tmp_path)[0])[1]
    cells = declared.declaration.product.cells
    assert memory(declared, "gls") - memory(declared) > 8 * cells * declared.plan.rows
    assert explain(declared).gls.startswith(f"possible, with {memory(declared, 'gls') >> 20} MiB")


CONTRADICTIONS: dict[str, tuple[str, Callable[[list[Row]], list[Row]]]] = {
    "an unknown leaf": ("zone", lambda rows: [*rows, ("x9", "1", "1", "3")]),
    "an unknown value": ("AGE", lambda rows: [*rows, ("a1", "1", "1", "77")]),
    "a zero": ("AGE", lambda rows: [*rows, ("a2", "2", "1", "0")]),
    "a place without institutions": ("counts.0", lambda rows: [*rows, ("a1", "2", "1", "5")]),
    "an empty institution": ("counts.0", lambda rows: [row for row in rows if row[:2] != ("b1", "2")]),
}


@pytest.mark.parametrize("wrong", CONTRADICTIONS)
def test_records_that_contradict_the_declaration_are_refused_before_anything_is_spent(
    wrong: str, tmp_path: Path
) -> None:
    column, change = CONTRADICTIONS[wrong]
    declaration, data = write(tmp_path, rows=change(persons()))
    run = DeclaredRun(tmp_path / "runs/r1")
    run.create()
    with pytest.raises(Refused, match="curator's report") as refused:
        count(run, data, read_declared(declaration)[0])
    assert column in {finding.column for finding in load_findings(run)}
    assert not any(char.isdigit() for char in str(refused.value).replace("r1", ""))  # no figure of the records
    assert not (run / "counts").exists()


def test_a_total_that_is_not_that_of_the_records_is_refused(tmp_path: Path) -> None:
    declaration, data = write(tmp_path)
    (tmp_path / "regions.csv").write_text("region,total\n1,40\n2,40\n")
    run = DeclaredRun(tmp_path / "runs/r1")
    run.create()
    with pytest.raises(Refused):
        count(run, data, read_declared(declaration)[0])
    (finding,) = load_findings(run)
    assert (finding.column, finding.values) == ("totals.0.file", ("1", "2"))


BAD_TABLES: dict[str, tuple[str, str, str]] = {
    "no total of a region": ("totals.0.file", "regions.csv", "region,total\n1,40\n"),
    "a total of no region": ("totals.0.file", "regions.csv", "region,total\n1,40\n2,40\n3,5\n"),
    "a total twice": ("totals.0.file", "regions.csv", "region,total\n1,40\n1,40\n2,3\n"),
    "a total that is no number": ("totals.0.file", "regions.csv", "region,total\n1,many\n2,3\n"),
    "no column of totals": ("", "regions.csv", "region,number\n1,3\n"),
    "no column of counts": ("", "zones.csv", "zone,region,district,zcode,homes\na1,1,1,1,1\n"),
}


@pytest.mark.parametrize("wrong", BAD_TABLES)
def test_a_bad_table_is_refused_by_its_key(wrong: str, tmp_path: Path) -> None:
    key, file, text = BAD_TABLES[wrong]
    declaration, _ = write(tmp_path)
    (tmp_path / file).write_text(text)
    findings = find_faults(declaration)
    assert key in {finding.column for finding in findings}


def test_explain_names_the_class_the_solver_and_why_none_is_faster(tmp_path: Path) -> None:
    limited = changed(lambda raw: raw["counts"][0].update(most=["", 9]))
    closing = changed(lambda raw: raw["counts"].append({"partition": "sex", "columns": ["homes", "homes"]}))
    nested = changed(
        lambda raw: raw["counts"].append({"partition": "dwelling*sex", "columns": ["homes"] * 2 + ["institutions"] * 2})
    )
    for raw, kind, why in (
        (limited, "A", "each part of the counts divides by itself"),
        (closing, "B", "one of them only closes parts"),
        (nested, "B", "nested or disjoint"),
    ):
        found = explain(read_declared(write(tmp_path, raw | {"totals": []})[0])[1])
        assert found.kind == kind
        assert {each.solver for each in found.levels} == {"least squares, rounding by minimum-cost flow"}
        assert why in found.why + found.feasibility


def test_bounds_that_cross_are_refused_before_any_record_is_read(tmp_path: Path) -> None:
    counts = {"partition": "sex", "columns": ["homes", "homes"], "least": [1, 0]}
    declaration, data = write(tmp_path, changed(lambda raw: raw["counts"].append(counts)))
    Path(data).unlink()
    (found,) = find_faults(declaration)
    assert found.column == "counts.1.partition"
    assert "bounds of dwelling and sex cross" in found.rule


def test_explain_needs_no_records_and_shows_none(tmp_path: Path) -> None:
    declaration, data = write(tmp_path)
    before = explain(read_declared(declaration)[1])
    Path(data).unlink()
    assert explain(read_declared(declaration)[1]) == before
    assert before.kind == "A"
    assert [each.passes for each in before.levels] == [
        "total declared",
        "total declared",
        "total first",
        "total with the other queries",
    ]
    measured = 1 + 2 + 2 + 4  # region 2 and district 10 have one child each, which is not measured
    assert before.answers == (1 + 4 + 24) * measured
    assert [each.margins["total"] == "exact: declared" for each in before.levels] == [True, True, False, False]
    assert all(isinstance(each.margins["detailed"], int) for each in before.levels)
    assert [remark.split(",")[0] for remark in before.remarks] == [
        "queries: the counts of total are declared in nation",
        "queries: the counts of total are declared in region",
    ]


def test_counts_that_say_every_number_of_records_have_no_margin(tmp_path: Path) -> None:
    """Of each part of a partition, and so of what it refines: `total`, not `dwelling*young`."""
    raw = changed(lambda raw: raw.update(counts=[exactly("dwelling", 2)], totals=[]))
    margins = explain(read_declared(write(tmp_path, raw)[0])[1]).levels[2].margins
    assert margins["total"] == "exact: declared"
    assert isinstance(margins["dwelling*young"], int)


def test_a_run_is_foreseen_by_the_cells_that_its_records_can_be_in(tmp_path: Path) -> None:
    rows = [("a1", "1", "1", "3"), ("a2", "2", "1", "3"), *[("b1", "2", "1", "3")] * 2, *[("b2", "1", "1", "3")] * 50]
    _, own = read_declared(write(tmp_path, rows=rows)[0])
    found = explain(own)
    homes, both = 12, 20  # cells that are open in a zone without institutions, and with
    nation, regions = both, 2 * both  # the nation's 54 persons can be in all cells of its regions
    districts = 2 + 2 + both  # region 1 has 2 persons, region 2 has 52
    zones = 2 + 2 + 1 + both + homes  # spread evenly, 4/3 persons are in the first district and 2/3 in the second
    unknowns = (found.seconds[0] - 2 * found.answers / 50e6) / 2.2e-6
    assert round(unknowns) == nation + regions + districts + zones


def test_errors_are_those_of_the_released_counts_of_each_query_group_and_table(tmp_path: Path) -> None:
    where = {"sex": "2", "age": "1-4"}
    published = {"women": {"title": "Women by age", "universe": "women of 1 to 4", "by": "age", "where": where}}
    declaration, data = write(tmp_path, changed(lambda raw: raw.update(publish={"tables": published})))
    run = DeclaredRun(tmp_path / "runs/r1")
    run.create()
    write_mark(Path(data).parent, [Path(data).name], generator="a test", version="1")
    count(run, data, read_declared(declaration)[0])
    errors, words = measure_errors(run, HERE, [4])
    true = truth_of(persons(), COLUMNS["zone"])
    zones = load_estimates(run, run.branch, "zone")
    cells = [(dw, sex, age) for dw in "12" for sex in "12" for age in ("0", "1", "2", "3", "4", "5-9")]
    found = zones.dense(len(cells))
    codes = list(zip(*run.declared.hierarchy.codes(3).values(), strict=True))
    off = [
        abs(found[row, at] - true.get((*code, *cell), 0))
        for row, code in enumerate(codes)
        for at, cell in enumerate(cells)
        if cell[0] == "1" or cell[2] not in "01"
    ]
    totals = [
        abs(found[row].sum() - sum(true[key] for key in true if key[:3] == code)) for row, code in enumerate(codes)
    ]
    all_sizes = errors[errors["size"] == "all"].set_index(["level", "quantity"])
    assert all_sizes["mae"]["zone", "detailed"] == pytest.approx(np.mean(off))
    assert all_sizes["n"]["zone", "detailed"] == len(off)
    assert all_sizes["mae"]["zone", "total"] == pytest.approx(np.mean(totals))
    assert all_sizes["mae"]["region", "total"] == 0  # declared
    women = [
        abs(sum(found[row, cells.index((dw, "2", age))] - true.get((*code, dw, "2", age), 0) for dw in "12"))
        for row, code in enumerate(codes)
        for age in "1234"
    ]
    assert (all_sizes["mae"]["zone", "women"], all_sizes["n"]["zone", "women"]) == (np.mean(women), len(women))
    assert (words["dwelling*young"], words["women"]) == ("dwelling × age in 2 groups", "Women by age")
    report, _ = write_report(tmp_path, errors, words, {"truth": "of a test"})
    (row,) = (dict(zip(report.columns, row, strict=True)) for row in report.rows if row[0] == "Women by age")
    assert row["zone"].startswith(f"{np.mean(women):.2f} (")


def estimate_again(
    folder: Path, staged: Path, declaration: str | None = None, estimator: Estimator | None = None
) -> Path:
    """Estimate from the measurements of a release; returns the release."""
    folder.mkdir()
    source = read_measurements(staged, declaration, estimator).read(folder / "runs/again", HERE)
    write_estimate(source, HERE, folder / "again", write=write_release)
    return folder / "again"


def test_an_estimate_from_the_measurements_is_the_release_and_passes_its_checks(tmp_path: Path, staged: Path) -> None:
    again = estimate_again(tmp_path / "estimate", staged)
    for level in COLUMNS:
        assert (again / f"parquet/{level}.parquet").read_bytes() == (staged / f"parquet/{level}.parquet").read_bytes()
        assert (again / f"{level}.csv").read_bytes() == (staged / f"{level}.csv").read_bytes()
    manifest = read_manifest(again)
    assert (manifest["spent"], manifest["measured_by"]) == (None, "r1")
    assert [each for each in checks(again, manifest) if each.faults] == []


def test_an_estimate_may_have_other_passes_and_nothing_else(tmp_path: Path, staged: Path) -> None:
    other, _ = write(tmp_path / "other", changed(lambda raw: raw.update(histograms=["zone"])))
    again = estimate_again(tmp_path / "estimate", staged, other)
    assert [path.name for path in (again / "parquet").iterdir()] == ["zone.parquet"]
    other, _ = write(tmp_path / "other", changed(lambda raw: raw["queries"].update(total="1/8", detailed="5/8")))
    with pytest.raises(Refused, match="queries is not that of the measurements"):
        read_measurements(staged, other)


def test_estimates_of_passes_after_a_rounding_keep_every_figure(tmp_path: Path) -> None:
    later = {"least_squares": [["dwelling*young"], ["rest"]], "round": ["dwelling*young"]}
    passes = {"levels": [*COLUMNS], "round": ["dwelling"], "then": [later]}
    queries = BASE["queries"] | {"total": "1/8", "dwelling": "1/8"}
    _, staged = run_at(tmp_path, *write(tmp_path / "b", changed(lambda raw: raw.update(queries=queries))))
    other, _ = write(tmp_path / "b", changed(lambda raw: raw.update(queries=queries, passes=[passes])))
    assert {each.solver for each in explain(read_declared(other)[1]).levels} == {
        "least squares in 3 passes, rounding by minimum-cost flow twice"
    }
    again = estimate_again(tmp_path / "estimate", staged, other)
    manifest = read_manifest(again)
    assert [each for each in checks(again, manifest) if each.faults] == []
    assert manifest["failed"] == []
    assert (again / "zone.csv").read_bytes() != (staged / "zone.csv").read_bytes()
    places = [tuple(LEAVES[name][at] for name in COLUMNS["zone"]) for at in range(len(LEAVES["zone"]))]
    for column, code in (("homes", "1"), ("institutions", "2")):
        closed = {(*place, code) for place, number in zip(places, LEAVES[column], strict=True) if number == "0"}
        assert not closed & {key[:4] for key in released(again, "zone")}


def test_a_column_that_is_named_as_its_level_is_explained_once() -> None:
    declaration, _ = read_declaration(BASE)
    assert declaration is not None
    columns = geounit_columns(declaration, "zone")
    assert [column.meaning for column in columns] == ["the region", "the district", "zcode of the zone"]


# Least squares over the tree.


FORGED_MARGINS = [  # a column, a level, what is added to a value, and the fault that is found
    ("estimate_margin", "zone", 1, "1 margins are not 1.96 standard errors"),
    ("estimate_margin", "district", np.nan, "1 margins are not 1.96 standard errors"),
    ("standard_error", "nation", 1, "1 margins are not 1.96 standard errors"),
    ("released", "region", 1, "1 released counts are not sums of the released cells"),
]


def test_estimates_over_the_tree_are_made_again_and_have_the_declared_figures(tmp_path: Path) -> None:
    _, staged = run_at(tmp_path, *write(tmp_path), "gls", tidy=True)
    manifest = read_manifest(staged)
    assert (manifest["estimator"], "margins/" in manifest["statements"]["estimates"]) == ("gls", True)
    found = [*check_tables(staged, manifest, description(manifest)), *checks(staged, manifest)]
    assert [each for each in found if each.faults] == []
    page = (staged / "report.html").read_text()
    assert ("margins/ has an unbiased estimate" in page, "no formula" in page.partition("<table")[0]) == (True, False)
    again = estimate_again(tmp_path / "estimate", staged)
    for level in COLUMNS:
        for name in (f"{level}.csv", f"margins/{level}.parquet"):
            assert (again / name).read_bytes() == (staged / name).read_bytes()
        margins = pd.read_parquet(staged / f"margins/{level}.parquet")
        counts = pd.read_parquet(staged / f"parquet/{level}.parquet")
        total = margins[margins["query"] == "total"]
        by_geounit = counts.groupby(COLUMNS[level])["COUNT"].sum() if COLUMNS[level] else counts["COUNT"].sum()
        assert total["released"].sum() == np.sum(by_geounit)
        if level in ("nation", "region"):  # their totals are declared
            assert total["standard_error"].tolist() == [0] * len(total)
            assert total["estimate"].tolist() == total["released"].tolist()
        else:
            assert (total["standard_error"] > 0).any()  # but of an only child
        cells = margins[margins["query"] == "detailed"].groupby(COLUMNS[level] or ["query"])
        assert cells["part"].unique().map(len).tolist() == [20] * len(cells)  # 4 of 24 are zeros
    for column, level, added, fault in FORGED_MARGINS:
        copy = Path(shutil.copytree(staged, tmp_path / level))
        margins = pd.read_parquet(copy / f"margins/{level}.parquet")
        margins.loc[margins.index[-1], column] += added
        margins.to_parquet(copy / f"margins/{level}.parquet", index=False)
        assert [(each.what, each.faults) for each in checks(copy, manifest) if each.faults] == [
            (f"margins of {level}", (fault,))
        ]
    program = estimate_again(tmp_path / "program", staged, None, "topdown")
    assert not (program / "margins").exists()
    assert (program / "zone.csv").read_bytes() != (staged / "zone.csv").read_bytes()


def test_the_parts_of_margins_are_in_the_order_of_the_axes(tmp_path: Path) -> None:
    queries = {"total": "1/4", "young*dwelling": "1/4", "detailed": "1/2"}  # dwelling is the first axis
    _, staged = run_at(tmp_path, *write(tmp_path, changed(lambda raw: raw.update(queries=queries))), "gls", tidy=True)
    margins = pd.read_parquet(staged / "margins/nation.parquet")
    counts = pd.read_parquet(staged / "parquet/nation.parquet")
    young = counts["age"].isin(["0", "1", "2"])
    assert margins[margins["query"] == "young*dwelling"].set_index("part")["released"].to_dict() == {
        part: counts[(counts["dwelling"] == dwelling) & (young == is_young)]["COUNT"].sum()
        for part, (dwelling, is_young) in enumerate([("1", True), ("1", False), ("2", True), ("2", False)])
    }
    tidy = pd.read_csv(staged / "tables/young-dwelling/nation.csv", dtype={"dwelling": str})
    numbers = ["count", "estimate", "standard_error", "estimate_margin"]
    assert list(tidy) == ["table", "level", "young", "dwelling", "unit", *numbers]
    assert tidy["estimate_margin"].to_numpy() == pytest.approx(1.96 * tidy["standard_error"].to_numpy(), abs=2e-3)
    asked = margins[margins["query"] == "young*dwelling"]
    assert tidy["dwelling"].tolist() == ["1", "1", "2", "2"]
    assert tidy["young"].tolist() == ["0 to 2", "3 to 9"] * 2
    for name, own in (("count", "released"), ("estimate", "estimate"), ("standard_error", "standard_error")):
        assert tidy[name].tolist() == asked[own].tolist()


def test_every_query_with_a_budget_has_its_table(tmp_path: Path) -> None:
    """Also on levels whose own histogram is not released; rows of 0 are left out."""
    _, staged = run_at(tmp_path, *write(tmp_path, changed(lambda raw: raw.update(histograms=["zone"]))), tidy=True)
    cells = pd.read_parquet(staged / "parquet/zone.parquet")
    cells["young"] = cells["age"].isin(["0", "1", "2"]).map({True: "0 to 2", False: "3 to 9"})
    for level, columns in COLUMNS.items():
        for query in ("total", "dwelling*young"):
            keys = [*columns, *(query.split("*") if "*" in query else ())]
            tidy = pd.read_parquet(staged / f"tables/{query.replace('*', '-')}/{level}.parquet")
            expected = cells.groupby(keys)["COUNT"].sum().to_dict() if keys else {0: cells["COUNT"].sum()}
            assert (tidy.set_index(keys)["count"] if keys else tidy["count"]).to_dict() == expected
    assert (staged / "tables/detailed/region.csv").exists()
    manifest = read_manifest(staged)
    assert [each for each in check_tables(staged, manifest, description(manifest)) if each.faults] == []


def test_pages_of_a_unit_have_its_rows_and_begin_with_totals(tmp_path: Path) -> None:
    """By its name or its codes, which below the first level are those of the levels above, too."""
    paths = write(tmp_path, changed(lambda raw: raw["levels"][2].update(names="dname")))
    columns = LEAVES | {"dname": ["Ten", "Nine", "Nine", "Other", "Other"]}
    rows = [[*columns], *zip(*columns.values(), strict=True)]
    (tmp_path / "zones.csv").write_text("".join(",".join(row) + "\n" for row in rows))
    _, staged = run_at(tmp_path, *paths, tidy=True)
    pages, counts = open_release(staged), pd.read_parquet(staged / "parquet/zone.parquet")
    for text, view, own in (
        ("Other", "code/district/2/9", {"region": "2", "district": "9"}),
        ("1/9", "code/district/1/9", {"region": "1", "district": "9"}),
        ("2", "code/region/2", {"region": "2"}),
        ("2/9/2", "code/zone/2/9/2", {"region": "2", "district": "9", "zcode": "2"}),
    ):
        assert pages.address(text, None, None) == {"view": view}
        page = pages.view({"view": view})
        table, *others = page.tables
        assert all(0 < each.page.total <= SHORT for each in others)
        total = counts.loc[(counts[[*own]] == pd.Series(own)).all(axis=1), "COUNT"].sum()
        assert (table.table()[1][0][-1], page.nothing) == (total, "")
    with pytest.raises(NotThere, match="several places match '9': 1/9 Nine; 2/9 Other"):
        pages.address("9", None, None)
    (district,) = pages.view({"view": "code/region/2"}).around
    assert district == ("Within it", [("Other", "code/district/2/9")])
    rows = pages.view(pages.address("1/9", None, "total-zone"))
    assert (rows.title, rows.page.total) == ("Nine", 2)
    assert pages.view({"view": "code/district/2/9"}).tables[0].title == "Persons by district: total"
    listed = [one.name for one in pages.view({"view": "tables"}).tables]
    assert listed[:5] == ["total-nation", "total-region", "total-district", "total-zone", "dwelling-young-nation"]
    assert {"cells-zone", "dwelling-young-zone", "names-district"} <= set(listed)
    assert pages.view({"view": "tables"}).title == "small: persons by the TopDown Algorithm: its tables"
    pages.manifest = {**pages.manifest, "geounits": 3}  # nobody vouches for a manifest
    assert [one.name for one in pages.view({"view": "tables"}).tables] == listed
    assert pages.view({"view": "overview"}).begin == [("Region 1", "code/region/1"), ("Region 2", "code/region/2")]


def test_a_release_says_how_to_read_it_and_to_get_margins_for_nothing_where_that_is_possible(tmp_path: Path) -> None:
    def cross(raw: dict[str, Any]) -> None:
        raw["recodes"]["odd"] = {"axis": "age", "from": [["0", "2", "4"], ["1", "3", "5-9"]]}
        raw["queries"] = {"total": "1/4", "young": "1/4", "odd": "1/4", "detailed": "1/4"}

    for name in ("crossed", "gls"):
        (tmp_path / name).mkdir(0o700)
    _, staged = run_at(tmp_path, *write(tmp_path), tidy=True)
    _, other = run_at(tmp_path / "crossed", *write(tmp_path / "crossed", changed(cross)), tidy=True)
    _, gls = run_at(tmp_path / "gls", *write(tmp_path / "gls"), "gls", tidy=True)
    wanted = "das tda estimate RELEASE OUT --estimator gls"
    for name in ("README.txt", "report.html"):
        assert [wanted in " ".join((each / name).read_text().split()) for each in (staged, other, gls)] == [1, 0, 0]
    (line,) = DeclaredSettings.model_construct().remarks(read_manifest(staged))
    assert wanted in line
    text = " ".join((gls / "README.txt").read_text().split())
    assert "publish estimate ± estimate_margin" in text
    for words in (text, " ".join((gls / "report.html").read_text().split())):
        assert COVERAGE in words
    assert "without zeros within a part." in text, "what this declaration has"
    assert 'read.csv("tables/cells/zone.csv"' in text, "the columns of all other tables too"
    assert ("have | between columns" in text, "category" in text) == (True, False)


def test_a_margin_of_standard_errors_holds_as_often_as_the_release_says() -> None:
    """Of a single answer, exactly; from large standard errors to the worst one below 1."""

    def held(law: Law) -> float:
        return 100 * float(coverage(law, int(Z95 * float(law.variance()) ** 0.5)))

    assert round(held(DiscreteGaussian(Fraction(10**6)))) == 95
    assert round(held(TwoSidedGeometric(Fraction(1000)))) == 94
    assert held(DiscreteGaussian(Fraction(1))) < 90
    worst = min(held(DiscreteGaussian(Fraction(variance, 1000))) for variance in range(200, 300, 2))
    assert 74 < worst < 75 < held(TwoSidedGeometric(Fraction(44, 100))) < 82
    assert all(f" {each} " in COVERAGE for each in (95, 94, 74))


def test_the_units_of_a_level_have_names(tmp_path: Path) -> None:
    """In tables/, also of levels below, by the codes of all levels above; one unit has one name."""

    def with_names(raw: dict[str, Any]) -> None:
        raw["levels"][1]["names"], raw["levels"][2]["names"] = "rname", "dname"

    def written(folder: Path, regions: list[str]) -> tuple[str, str]:
        paths = write(folder, changed(with_names))
        columns = LEAVES | {"rname": regions, "dname": ["Ten", "Nine", "Nine", "Other", "Other"]}
        rows = [[*columns], *zip(*columns.values(), strict=True)]
        (folder / "zones.csv").write_text("".join(",".join(row) + "\n" for row in rows))
        return paths

    _, staged = run_at(tmp_path, *written(tmp_path, ["North", "North", "North", "South", "South"]), tidy=True)
    manifest = read_manifest(staged)
    found = [*check_tables(staged, manifest, description(manifest)), *checks(staged, manifest)]
    assert [each for each in found if each.faults] == []
    assert (staged / "names/district.csv").read_text() == "region|district|NAME\n1|9|Nine\n1|10|Ten\n2|9|Other\n"
    zones = pd.read_csv(staged / "tables/cells/zone.csv", dtype=str)
    pairs = set(zip(zones["region_code"] + "/" + zones["district_code"], zones["district"], strict=True))
    assert pairs <= {("1/9", "Nine"), ("1/10", "Ten"), ("2/9", "Other")}
    assert set(zones["region"]) == {"North", "South"}
    assert set(read_release(staged, "region")["region_name"]) == {"North", "South"}
    districts = read_release(staged, "district").astype(str)
    named = set(districts["region"] + "/" + districts["district"] + " " + districts["district_name"])
    assert len(named) >= 2  # a unit whose noisy counts are all 0 has no row
    assert named <= {"1/9 Nine", "1/10 Ten", "2/9 Other"}
    path = staged / "names/region.csv"
    path.write_text(path.read_text().replace("South", "West"))
    assert [each.what for each in checks(staged, manifest) if each.faults] == ["names of region"]
    with pytest.raises(Refused, match=r"levels\.1\.names: a unit has the names 'North' and 'South'"):
        read_declared(written(tmp_path / "two", ["North", "North", "South", "South", "South"])[0])


def test_without_noise_estimates_over_the_tree_are_the_truth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QueryNoise, "add_to", lambda *_: None)
    _, staged = run_at(tmp_path, *write(tmp_path), "gls")
    for level, columns in COLUMNS.items():
        assert released(staged, level) == truth_of(persons(), columns)
        margins = pd.read_parquet(staged / f"margins/{level}.parquet")
        np.testing.assert_allclose(margins["estimate"], margins["released"], atol=1e-3)


def limits_that_nest(raw: dict[str, Any]) -> None:
    counts = [{"partition": "dwelling*sex", "columns": ["homes", "homes", "", ""], "most": [8, 8, "", ""]}]
    raw.update(totals=[], counts=[*raw["counts"], *counts])


def passes_after_a_rounding(raw: dict[str, Any]) -> None:
    later = {"least_squares": [["dwelling*young"], ["rest"]], "round": ["dwelling*young"]}
    raw["queries"] |= {"total": "1/8", "dwelling": "1/8"}
    raw["passes"] = [{"levels": [*COLUMNS], "round": ["dwelling"], "then": [later]}]


def recodes_of_unequal_parts(raw: dict[str, Any]) -> None:
    raw["recodes"] = {"young": {"axis": "age", "starts": [0, 2]}, "age3": {"axis": "age", "starts": [0, 2, 5]}}
    raw["queries"] = {"dwelling*young": "1/4", "sex*age3": "1/4", "total": "1/4", "detailed": "1/4"}


def one_histogram(raw: dict[str, Any]) -> None:
    raw["histograms"] = ["district"]


def other_queries_by_level(raw: dict[str, Any]) -> None:
    raw["queries"]["zone"] = {"sex*young": "1/3", "detailed": "2/3"}


@pytest.mark.parametrize(
    ("change", "estimator"),
    [
        (limits_that_nest, "topdown"),
        pytest.param(limits_that_nest, "gls", marks=pytest.mark.ci),
        pytest.param(passes_after_a_rounding, "gls", marks=pytest.mark.ci),
        (recodes_of_unequal_parts, "gls"),
        pytest.param(other_queries_by_level, "gls", marks=pytest.mark.ci),
        pytest.param(one_histogram, "gls", marks=pytest.mark.ci),
    ],
)
def test_estimates_meet_figures_of_every_class(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], estimator: Estimator
) -> None:
    _, staged = run_at(tmp_path, *write(tmp_path, changed(change)), estimator, tidy=True)
    manifest = read_manifest(staged)
    found = [*check_tables(staged, manifest, description(manifest)), *checks(staged, manifest)]
    assert [each for each in found if each.faults] == []
    assert manifest["failed"] == []


def test_recodes_that_cross_are_refused_by_name_before_anything_is_spent(tmp_path: Path) -> None:
    def cross(raw: dict[str, Any]) -> None:
        raw["recodes"]["odd"] = {"axis": "age", "from": [["0", "2", "4"], ["1", "3", "5-9"]]}
        raw["queries"] = {"total": "1/4", "young": "1/4", "sex*odd": "1/4", "detailed": "1/4"}

    declaration, data = write(tmp_path, changed(cross))
    assert explain(read_declared(declaration)[1]).gls == "not possible, for the recodes young and odd of age cross"
    assert re.fullmatch("possible, with [0-9]+ MiB a process", explain(read_declared(write(tmp_path / "b")[0])[1]).gls)
    settings = DeclaredSettings(
        data=data,
        declaration=declaration,
        out=str(tmp_path / "out"),
        estimator="gls",
        runs_folder=str(tmp_path / "state"),
    ).model_copy(update={"run_id": "run"})
    with pytest.raises(Refused, match=r"the recodes young and odd of age cross; topdown takes any"):
        check_declared(settings)
    _, staged = run_at(tmp_path, declaration, data)
    with pytest.raises(Refused, match="the recodes young and odd of age cross"):
        estimate_again(tmp_path / "estimate", staged, None, "gls")


def test_errors_of_both_estimators_are_of_the_same_noise(tmp_path: Path) -> None:
    declaration, data = write(tmp_path)
    run = DeclaredRun(tmp_path / "runs/r1")
    run.create()
    write_mark(Path(data).parent, [Path(data).name], generator="a test", version="1")
    count(run, data, read_declared(declaration)[0])
    errors, _ = measure_errors(run, HERE, [4], ["topdown", "gls"])
    both = errors[(errors["size"] == "all") & (errors["level"] == "zone")].set_index(["estimator", "quantity"])
    alone = measure_errors(run, HERE, [4])[0]
    alone = alone[(alone["size"] == "all") & (alone["level"] == "zone")].set_index("quantity")
    assert both["mae"]["topdown"].to_dict() == alone["mae"].to_dict()
    assert both["mae"]["gls", "detailed"] != both["mae"]["topdown", "detailed"]
    assert both["ratio"]["gls", "detailed"] == both["mae"]["gls", "detailed"] / both["mae"]["topdown", "detailed"]


# Random declarations.


@st.composite
def declarations(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, list[str]], list[Row]]:
    """Draw a declaration of one to three axes and two to four levels with its leaves and records that agree with it."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    names = [f"axis{at}" for at in range(len(sizes))]
    depth = draw(st.integers(2, 4))
    leaves = draw(st.integers(1, 6))
    columns = {f"code{level}": [str(draw(st.integers(1, 2))) for _ in range(leaves)] for level in range(1, depth - 1)}
    columns |= {"leaf": [str(at) for at in range(leaves)], f"code{depth - 1}": [str(at) for at in range(leaves)]}
    chance = random.Random(draw(st.integers(0, 10**6)))
    rows = [
        (str(leaf), *(str(chance.randrange(size)) for size in sizes))
        for leaf in range(leaves)
        for _ in range(chance.randrange(9))
    ]
    raw: dict[str, Any] = {
        "name": "random",
        "records": "person",
        "budget": draw(st.sampled_from(["1/3", "2", "20"])),
        "leaves": {"file": "leaves.csv", "key": "leaf"},
        "levels": [{"name": "top"}, *({"name": f"level{at}", "columns": [f"code{at}"]} for at in range(1, depth))],
        "axes": {
            name: {"column": name.upper(), "values": [str(at) for at in range(size)]}
            for name, size in zip(names, sizes, strict=True)
        },
        "queries": {"total": "1/4", "axis0": "1/4", "detailed": "1/2"},
        "bypass": draw(st.booleans()),
    }
    if sizes[0] > 2 and draw(st.booleans()):
        raw["recodes"] = {"part": {"axis": "axis0", "width": 2}}
        raw["queries"] = {"total": "1/4", "part": "1/4", "detailed": "1/2"}
    if draw(st.booleans()):
        partition = draw(st.sampled_from(["axis0", *raw.get("recodes", {})]))
        width = sizes[0] if partition == "axis0" else -(-sizes[0] // 2)
        step = 1 if partition == "axis0" else 2
        present = {(row[0], int(row[1]) // step) for row in rows}
        for part in range(width):
            columns[f"count{part}"] = [str(int((str(leaf), part) in present)) for leaf in range(leaves)]
        raw["counts"] = [
            {"partition": partition, "columns": [f"count{part}" for part in range(width)], "least": [1] * width}
        ]
    if draw(st.booleans()):
        raw["totals"] = [{"of": "top", "file": "total.csv"}]
    return raw, columns, rows


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(declarations(), st.booleans(), st.sampled_from(ESTIMATORS))
def test_random_declarations_keep_their_figures_and_without_noise_are_the_truth(
    tmp_path_factory: pytest.TempPathFactory,
    drawn: tuple[dict[str, Any], dict[str, list[str]], list[Row]],
    noise: bool,
    estimator: Estimator,
) -> None:
    raw, columns, rows = drawn
    folder = tmp_path_factory.mktemp("random")
    tables = {
        "leaves.csv": [list(columns), *zip(*columns.values(), strict=True)],
        "total.csv": [["total"], [str(len(rows))]],
        "records.csv": [["leaf", *(axis["column"] for axis in raw["axes"].values())], *rows],
    }
    for name, lines in tables.items():
        with open(folder / name, "w", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows(lines)
    (folder / "d.json").write_text(json.dumps(raw))
    if not rows:
        return
    with pytest.MonkeyPatch.context() as patch:
        if not noise:
            patch.setattr(QueryNoise, "add_to", lambda *_: None)
        _, staged = run_at(folder, str(folder / "d.json"), str(folder / "records.csv"), estimator)
    levels, last = [level["name"] for level in raw["levels"]], raw["levels"][-1]["name"]
    lowest = pd.read_parquet(staged / f"parquet/{last}.parquet")
    assert [each for each in checks(staged, read_manifest(staged)) if each.faults] == []
    if not noise:
        codes = {
            str(at): [columns[f"code{level}"][at] for level in range(1, len(levels))]
            for at in range(len(columns["leaf"]))
        }
        expected = Counter((*codes[row[0]], *row[1:]) for row in rows)
        assert released(staged, last) == expected
    if "totals" in raw:
        assert lowest["COUNT"].sum() == len(rows)
    if "counts" in raw:
        step = 1 if raw["counts"][0]["partition"] == "axis0" else 2
        found = set(zip(lowest[f"code{len(levels) - 1}"], lowest["axis0"].astype(int) // step, strict=True))
        assert found == {(row[0], int(row[1]) // step) for row in rows}


# The shipped declarations.


@pytest.mark.parametrize("jurisdiction", ["us", "pr"])
def test_the_shipped_redistricting_products_are_those_of_the_program(jurisdiction: Jurisdiction) -> None:
    """Its schema pl94, its strategy Strategy1b_ST_CTY_TR_BG_isoTot_Ordering_dsepJune3, its budgets."""
    persons, units = (redistricting_declaration(name, jurisdiction) for name in ("pl94-persons", "pl94-units"))
    assert [(axis.column, axis.codes) for axis in persons.product.axes] == [
        ("GQTYPE_PL", tuple("01234567")),
        ("VOTING_AGE", ("1", "2")),
        ("CENHISP", ("1", "2")),
        ("CENRACE", tuple(f"{code:02d}" for code in range(1, 64))),
    ]
    impossible = np.flatnonzero(~persons.product.possible)
    assert impossible.tolist() == [*range(3 * 252, 3 * 252 + 126)]  # of 8 x 2 x 2 x 63: minors in nursing facilities
    assert np.array_equal(persons.product.types, np.arange(2016) // 252)
    assert persons.passes == Passes(
        total_first=frozenset(("State", "County", "Tract", "Block_Group")),
        rounded=("hhgq", "hhgq*hispanic", "hhgq*hispanic*cenrace"),
        cell_weight=2,  # hhgq*votingage*hispanic*cenrace and detailed are the same cells: they count twice
    )
    levels = ("US", "State", "County", "Tract", "Block_Group", "Block")[jurisdiction == "pr" :]
    assert tuple(level.name for level in persons.levels) == tuple(level.name for level in units.levels) == levels
    assert persons.allocation.budget == Fraction(293764, 114921)  # 2.5562
    assert units.allocation.budget == Fraction(11417641, 152349649)  # .0749
    assert [(axis.column, axis.codes) for axis in units.product.axes] == [("HH_STATUS", ("2", "1"))]
    assert units.form.counts_are_totals
    for product, own in ((PERSONS, persons.product), (UNITS, units.product)):
        assert (own.axes, own.recodes, own.zeros, own.bounded) == (
            product.axes,
            product.recodes,
            product.zeros,
            product.bounded,
        )


def test_the_shipped_table_of_1940_has_its_cells_and_queries() -> None:
    declaration, faults = read_declaration(read_raw(str(SHIPPED / "census-1940.toml")))
    assert declaration is not None, faults
    assert declaration.product.shape == (8, 2, 116, 2, 6, 2)
    assert query_group(declaration.product, "age64*sex").width == 4
    assert declaration.definition == "puredp"


# Synthetic records.


@pytest.mark.parametrize("form", ["text", "parquet"])
def test_synthetic_records_of_the_example_pass_its_validation_and_are_marked(tmp_path: Path, form: str) -> None:
    made = synthesize_records("example-districts", tmp_path, seed=3, form=form)
    public, declared = read_declared("example-districts")
    assert made["records"] == declared.bounds.lowest_totals.values.sum()
    run = DeclaredRun(tmp_path / "runs/r1")
    run.create()
    assert count(run, str(made["data"]), public).mark == "SYNTHETIC"


def test_synthetic_records_follow_a_table_of_shares(tmp_path: Path) -> None:
    declaration, _ = write(tmp_path)
    (tmp_path / "shares.csv").write_text("axis,value,share\nsex,1,0.9\nsex,2,0.1\n")
    (tmp_path / "regions.csv").write_text("region,total\n1,9000\n2,9000\n")
    made = synthesize_records(declaration, tmp_path / "made", shares=tmp_path / "shares.csv")
    sex = pd.read_csv(made["data"])["SEX"]
    assert (sex == 1).mean() == pytest.approx(0.9, abs=0.01)
    (tmp_path / "shares.csv").write_text("axis,value,share\nsex,7,0.9\n")
    with pytest.raises(Refused, match="sex 7"):
        synthesize_records(declaration, tmp_path / "made", shares=tmp_path / "shares.csv")


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_housing_units_with_a_declared_number_have_the_closed_form(tmp_path: Path, estimator: Estimator) -> None:
    raw = changed(
        lambda raw: raw.update(
            records="housing unit",
            unit="person",
            axes={"occupied": {"column": "SEX", "values": ["1", "2"]}},
            recodes={},
            zeros=[],
            totals=[],
            queries={"detailed": "1"},
            counts=[{"partition": "total", "columns": ["homes"], "least": [1], "most": [1]}],
        )
    )
    units = [
        (zone, "1", random.Random(at).choice("12"), "3")
        for zone, homes in zip(LEAVES["zone"], LEAVES["homes"], strict=True)
        for at in range(int(homes))
    ]
    declaration, data = write(tmp_path, raw, units)
    explained = explain(read_declared(declaration)[1])
    assert explained.levels[-1].solver == "closed form"
    assert "the number of housing units of every zone (homes)" in explained.unchanged
    _, staged = run_at(tmp_path, declaration, data, estimator)
    zones = pd.read_parquet(staged / "parquet/zone.parquet").groupby(["region", "district", "zcode"])["COUNT"].sum()
    homes = {
        tuple(LEAVES[name][at] for name in COLUMNS["zone"]): int(number) for at, number in enumerate(LEAVES["homes"])
    }
    assert zones.to_dict() == homes
    relations = {each.key: each.sentence for each in read_spend(read_manifest(staged)["spent"]).relations}
    assert relations["replaced_within"].startswith("a housing unit replaced by another of its zone")


def write_second(folder: Path, releases: dict[str, str], **more: Any) -> tuple[str, str]:
    """Write a declaration whose estimates have counts of releases, by partition."""
    equal = [{"partition": name, "release": release} for name, release in releases.items()]
    return write(folder, changed(lambda raw: raw.update({"counts": [], "totals": [], "equal": equal, **more})))


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_estimates_have_the_counts_of_a_published_release_and_never_those_of_a_truth(
    tmp_path: Path, staged: Path, estimator: Estimator
) -> None:
    first = Path(shutil.copytree(staged, tmp_path / "first"))
    declaration, data = write_second(tmp_path, {"dwelling": "first"}, name="second")
    _, again = run_at(tmp_path, declaration, data, estimator)
    names = ["region", "district", "zcode", "dwelling"]
    counts = [pd.read_parquet(each / "parquet/zone.parquet").groupby(names)["COUNT"].sum() for each in (staged, again)]
    assert counts[0].equals(counts[1])
    assert not pd.read_parquet(staged / "parquet/zone.parquet").equals(pd.read_parquet(again / "parquet/zone.parquet"))
    assert "first" in read_manifest(again)["public_files"]
    assert [each for each in checks(again, read_manifest(again)) if each.faults] == []
    path, whole = again / "measurements/equal.parquet", pq.read_table(again / "measurements/equal.parquet")
    pq.write_table(whole.set_column(3, "NUMBER", pc.add(whole["NUMBER"], 1)), path)
    (found,) = (each for each in checks(again, read_manifest(again)) if each.faults)
    assert "5 geounits have other counts by dwelling than first" in found.faults[0]
    manifest = json.loads((first / "manifest.json").read_text())
    (first / "manifest.json").write_text(json.dumps(manifest | {"NOT_PRIVATE": "exact"}))
    findings = find_faults(declaration)
    assert [(each.column, "exact counts" in each.rule) for each in findings] == [("equal.0.release", True)]
    (first / "manifest.json").write_text(json.dumps(manifest))
    (first / "zone.csv").write_text("changed")
    assert "not whole" in find_faults(declaration)[0].rule


@pytest.fixture
def first(tmp_path: Path, staged: Path) -> Path:
    """A release, in a folder of the second declaration."""
    return Path(shutil.copytree(staged, tmp_path / "x/declared"))


@pytest.mark.parametrize("wrong", [-1, None, 1.5, 1 << 31])
def test_equality_is_with_whole_numbers_alone(first: Path, wrong: Any) -> None:
    """What no table can have is refused before the charge; a run could never end."""
    table = pq.read_table(path := first / "parquet/zone.parquet")
    counts = [wrong, *table["COUNT"].to_pylist()[1:]]
    at = table.column_names.index("COUNT")
    pq.write_table(table.set_column(at, "COUNT", pa.array(counts)), path)
    manifest = json.loads((first / "manifest.json").read_text())
    manifest["files"]["parquet/zone.parquet"] = file_digest(path)
    (first / "manifest.json").write_text(json.dumps(manifest))
    declaration, _ = write_second(first.parent.parent, {"dwelling": "x/declared"})
    (found,) = find_faults(declaration)
    assert (found.column, "other than whole numbers" in found.rule) == ("equal.0.release", True)


def test_a_release_names_two_releases_apart_without_their_folders_and_is_estimated_again(first: Path) -> None:
    folder = first.parent.parent
    shutil.copytree(first, folder / "y/declared")
    releases = {"dwelling": str(first), "dwelling*sex": str(folder / "y/declared")}
    _, staged = run_at(folder, *write_second(folder, releases), tidy=True)
    manifest = read_manifest(staged)
    assert set(manifest["public_files"]) == {"zones.csv", "declared", "declared-2"}
    assert [each["release"] for each in manifest["declaration"]["equal"]] == ["declared", "declared-2"]
    assert "that declared-2 has published" in " ".join(manifest["declared_unchanged"])
    for path in staged.rglob("*"):
        assert path.is_dir() or str(folder).encode() not in path.read_bytes()
    found = [*check_tables(staged, manifest, description(manifest)), *checks(staged, manifest)]
    assert [each for each in found if each.faults] == []
    again = estimate_again(folder / "estimate", staged)
    for level in COLUMNS:
        assert (again / f"{level}.csv").read_bytes() == (staged / f"{level}.csv").read_bytes()
    assert set(read_manifest(again)["public_files"]) == {"zones.csv", "declared", "declared-2"}
    path = staged / "measurements/equal.parquet"
    table = pq.read_table(path)
    for name, wrong in (("NUMBER", -1), ("LEAF", 99), ("PART", 2), ("EQUAL", 2)):
        at = table.column_names.index(name)
        pq.write_table(table.set_column(at, name, pa.array([wrong, *table[name].to_pylist()[1:]])), path)
        with pytest.raises(Refused):
            read_measurements(staged).read(folder / f"estimate/{name}", HERE)


def test_a_release_that_changes_while_it_is_read_is_refused(first: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    declaration, _ = write_second(first.parent.parent, {"dwelling": "x/declared"})
    opened = pq.ParquetFile

    def replaced(path: Path) -> pq.ParquetFile:
        file = opened(path)
        pq.write_table(file.read().slice(1), path.with_suffix(".other"))
        path.with_suffix(".other").replace(path)
        return file

    monkeypatch.setattr(pq, "ParquetFile", replaced)
    assert "changed while it was read" in find_faults(declaration)[0].rule


def test_one_table_of_a_release_is_read_and_chosen_where_several_fit(first: Path) -> None:
    folder = first.parent.parent
    (folder / "districts.csv").write_text("key,region,district\n1,1,10\n2,1,9\n3,2,9\n")
    coarser = {"levels": BASE["levels"][:3], "leaves": {"file": "districts.csv", "key": "key"}}
    found = {}
    for table in ("", "district", "zone", "nation", "parish"):
        equal = [{"partition": "dwelling", "release": "x/declared", **({"table": table} if table else {})}]
        declaration, _ = write_second(folder, {}, **coarser, equal=equal)
        try:
            found[table] = read_declared(declaration)[0].equal
        except Faulty as faults:
            found[table] = faults.args[0].rule
    assert found[""].endswith("has several: say which, as table = district, zone")
    assert found["district"] == found["zone"] != ()
    assert found["nation"].endswith("has no such table nation")
    assert found["parish"].endswith("has no such table parish")


def test_a_run_goes_on_when_its_public_files_are_gone_and_not_when_they_are_changed(first: Path) -> None:
    folder = first.parent.parent
    declaration, data = write_second(folder, {"dwelling": "x/declared"})
    run, _ = run_at(folder, declaration, data)
    settings = DeclaredSettings.new(
        data=data, declaration=declaration, out=str(folder / "out"), runs_folder=str(folder), run_id=run.id
    )
    public, digest = read_declared(declaration)[0], settings.configuration_digest()
    shutil.rmtree(first)
    with pytest.raises(Refused, match=r"equal\.0\.release"):
        read_declared(declaration)
    assert read_declared(declaration, run)[0].same(public)
    assert settings.configuration_digest() == digest
    assert check_declared(settings)
    Path(data).unlink()
    assert check_declared(settings), "it has its own copy of the records"
    zones = (folder / "zones.csv").read_text()
    (folder / "zones.csv").write_text(zones.replace("a1", "a0"))
    with pytest.raises(Refused, match=r"equal\.0\.release"):
        read_declared(declaration, run)
    (folder / "zones.csv").unlink()
    assert read_declared(declaration, run)[0].same(public)
    other, _ = write_second(folder, {"sex": "x/declared"})
    assert other == declaration
    (folder / "zones.csv").unlink()
    with pytest.raises(Refused):
        read_declared(declaration, run)
    Path(declaration).unlink()
    assert read_declared(declaration, run)[0].same(public)


@pytest.mark.parametrize("totals", [[], ["nation"]])
@pytest.mark.parametrize("records", [None, 1])
def test_synthetic_records_meet_counts_that_nest(tmp_path: Path, totals: list[str], records: int | None) -> None:
    counts = [
        {"partition": "dwelling", "columns": ["homes", "institutions"], "least": [1, 1], "most": [9, ""]},
        {
            "partition": "dwelling*sex",
            "columns": ["homes"] * 2 + [""] * 2,
            "least": [0, 1, 0, 0],
            "most": [6, 6, "", ""],
        },
    ]
    given = [{"of": name, "file": "nation.csv"} for name in totals]
    (tmp_path / "nation.csv").write_text("total\n50\n")
    declaration, _ = write(tmp_path, changed(lambda raw: raw.update(totals=given, counts=counts)))
    synthesize_records(declaration, tmp_path / "made", records=records)
    run = DeclaredRun(tmp_path / "runs/r2")
    run.create()
    count(run, str(tmp_path / "made/records.csv"), read_declared(declaration)[0])  # refuses what contradicts


@pytest.mark.parametrize(
    ("file", "old", "new", "rule"),
    [
        (
            "zones.csv",
            "homes",
            "houses",
            "no column homes; the file has zone, region, district, zcode, houses, institutions",
        ),
        ("records.csv", "SEX", "Sexo", "no column SEX"),  # a first line without names would be a person
        ("records.csv", ",", "\t", r'it has one column only: should it be delimiter = "\t"?'),
    ],
)
def test_a_column_that_is_not_there_is_named(tmp_path: Path, file: str, old: str, new: str, rule: str) -> None:
    declaration, data = write(tmp_path)
    _, declared = read_declared(declaration)
    (tmp_path / file).write_text((tmp_path / file).read_text().replace(old, new))
    (found,) = open_data(data, declared.declaration)[1] if file == "records.csv" else find_faults(declaration)
    assert found.rule.endswith(rule)
    assert "b1" not in found.rule
