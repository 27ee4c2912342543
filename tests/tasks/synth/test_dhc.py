"""Persons, households and units of the DHC: records that can be, in the population that other systems' files have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from spine.declaration.declaration import Declaration, read_declaration
from spine.declaration.product import coordinates
from spine.dhc_households import households_declaration, units_declaration
from tasks.records.block_codes import BLOCK_COLUMNS
from tasks.records.declarations import find_declaration, read_raw
from tasks.synth.synthesize import synthesize_example
from tasks.synth.write import Options

BLOCK = list(BLOCK_COLUMNS)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("synth") / "out"
    synthesize_example(out, Options(seed=4, places={name: name for name in ("dhc", "tda", "sdhc")}))
    return out


def read(path: Path, between: str = "|") -> pd.DataFrame:
    return pd.read_csv(path, sep=between, dtype=str)


def possible(declaration: Declaration | None, records: pd.DataFrame) -> bool:
    assert declaration is not None
    product, axes = declaration.product, declaration.form.axes
    at = [records[axes[name].column].map(coordinates(axes[name])).to_numpy(float) for name in product.names]
    assert not np.isnan(at).any()
    return bool(product.possible[np.ravel_multi_index([own.astype(int) for own in at], product.shape)].all())


def test_records_are_in_cells_that_the_declarations_have(made: Path) -> None:
    raws = {
        "persons": read_raw(find_declaration("dhc-persons-us")),
        "households": households_declaration("us", ()),
        "units": units_declaration("us"),
    }
    for name, raw in raws.items():
        assert possible(read_declaration(raw)[0], read(made / f"dhc/{name}.txt"))


def test_households_and_units_are_those_of_the_other_systems(made: Path) -> None:
    """By block and tenure, size and couple; occupied and vacant units as the redistricting run counts them."""
    own, units, other = (read(made / f"dhc/{name}.txt") for name in ("households", "units", "persons"))
    theirs = read(made / "sdhc/units.csv", ",")
    theirs = theirs[(theirs["RTYPE"] == "2") & (theirs["TEN"] != "0")]
    assert own["TEN"].value_counts().to_dict() == theirs["TEN"].value_counts().to_dict()
    assert own["HHTYPE"].str[0].value_counts().to_dict() == theirs["CPLT"].value_counts().to_dict()
    sizes = theirs["FINAL_POP"].astype(int).clip(upper=7).astype(str)
    assert own["HHTYPE"].str[6].value_counts().to_dict() == sizes.value_counts().to_dict()
    assert own[[*BLOCK, "HHSEX"]].value_counts().sum() == other["RELGQ"].isin(["0", "1"]).sum()
    redistricting = read(made / "tda/units.txt")
    status = units["TEN"].eq("0").map({True: "2", False: "1"})
    assert (units.assign(HH_STATUS=status)[[*BLOCK, "HH_STATUS"]].value_counts().sort_index()).equals(
        redistricting[redistricting["RTYPE"] == "2"][[*BLOCK, "HH_STATUS"]].value_counts().sort_index()
    )
    assert not ((units["TEN"] == "0") ^ (units["VACS"] != "0")).any()


def test_redistricting_counts_are_those_of_the_same_population(made: Path) -> None:
    """By block, type of living quarters, voting age, Hispanic and race: ages moved for a zero stay on their side."""
    own, other = read(made / "dhc/persons.txt"), read(made / "tda/persons.txt")
    code = own["RELGQ"].astype(int)
    quarters = np.searchsorted([18, 24, 27, 28, 33, 34, 36], code, side="right")
    own = own.assign(GQTYPE_PL=quarters.astype(str), VOTING_AGE=np.where(own["QAGE"].astype(int) < 18, "1", "2"))
    keys = [*BLOCK, "GQTYPE_PL", "VOTING_AGE", "CENHISP", "CENRACE"]
    assert own[keys].value_counts().sort_index().equals(other[keys].value_counts().sort_index())


def test_households_have_a_householder_who_is_alone_or_not(made: Path) -> None:
    own, units = read(made / "dhc/persons.txt"), read(made / "sdhc/units.csv", ",")
    sizes = units.loc[(units["RTYPE"] == "2"), "FINAL_POP"].astype(int)
    assert (own["RELGQ"] == "0").sum() == (sizes == 1).sum()
    assert (own["RELGQ"] == "1").sum() == (sizes > 1).sum()


def test_types_of_quarters_have_persons_where_they_have_facilities(made: Path) -> None:
    own, facilities = read(made / "dhc/persons.txt"), read(made / "dhc/quarters.csv", ",").set_index("tabblk")
    seven = read(made / "tda/quarters.csv", ",").set_index("tabblk")
    columns = [name for name in facilities.columns.tolist() if name.startswith("gq")]
    counts = facilities[columns].astype(int)
    living = own[own["RELGQ"].astype(int) >= 18]
    blocks = living[BLOCK].agg("".join, axis=1)
    persons = pd.crosstab(blocks, living["RELGQ"].astype(int) - 18).reindex(
        index=counts.index, columns=range(len(columns)), fill_value=0
    )
    assert (persons.to_numpy() >= counts.to_numpy()).all()
    assert ((persons.to_numpy() > 0) == (counts.to_numpy() > 0)).all()
    assert len(facilities) == len(seven)
    for major in "123456":
        together = counts[[name for name in columns if name[2] == major]].sum(axis=1)
        assert together.equals(seven[f"gq{major}"].astype(int).rename(None))
