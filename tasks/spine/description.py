"""What the tables of a spine's folder are; columns of standard errors are named after the marginals and spines."""

from __future__ import annotations

from dataclasses import replace

from tasks.lifecycle.description import Column, Table

CLASS = Column("class", "code", "the class of the entities")
LEVEL = Column("level", "code", "the level of the spine")
SHARE = Column("share", "fraction", "the share of the budget")
OSED = Column("osed_*", "geounits", "off-spine entity distance on the named spine", type="number")
ERROR = Column("se_*", "persons or units", "standard error of the noise in a cell", type="number")
FANOUT = Column("fanout_*", "geounits", "children of a geounit: least, quantiles, mean or most", type="number")


def _number(name: str, unit: str, meaning: str) -> Column:
    return Column(name, unit, meaning, type="integer")


TABLES = (
    Table(
        "Geounits above the blocks",
        (
            LEVEL,
            _number("id", "number", "the geounit, in its level"),
            _number("parent", "number", "the id of its parent in the level above; empty at the root"),
            Column("geocode", "code", "its geocode on the spine"),
            SHARE,
            _number("fanout", "geounits", "its children"),
            _number("blocks", "blocks", "the blocks in it"),
            ERROR,
        ),
        parquet="geounits/{state}.parquet",
        split="state",
        key=("level", "id"),
    ),
    Table(
        "Blocks",
        (
            Column("block", "code", "the block by its 15 public digits"),
            Column("geocode", "code", "its geocode on the spine"),
            SHARE,
            _number("*", "number", "the id of the geounit that it is in, by level"),
        ),
        parquet="blocks/{state}.parquet",
        split="state",
        key=("block",),
    ),
    Table(
        "Off-spine entities",
        (
            CLASS,
            Column("code", "code", "the entity, as people write it"),
            Column("outside", "yes or no", "whether it is what lies outside all entities", type="boolean"),
            _number("blocks", "blocks", "the blocks in it"),
            replace(_number("population", "persons", "the persons in it, as the block table says"), optional=True),
            OSED,
            ERROR,
        ),
        text="entities.csv",
        delimiter=",",
    ),
    Table(
        "Classes of entities",
        (CLASS, _number("entities", "entities", "how many there are"), OSED, ERROR),
        text="classes.csv",
        delimiter=",",
        key=("class",),
    ),
    Table(
        "Levels of the spines",
        (
            Column("spine", "code", "the spine"),
            LEVEL,
            _number("geounits", "geounits", "how many there are"),
            replace(SHARE, meaning="the share of the budget, before any bypass"),
            Column("only_child", "geounits", "how many have one child", type="number"),
            FANOUT,
            ERROR,
        ),
        text="levels.csv",
        delimiter=",",
        key=("spine", "level"),
    ),
    Table(
        "The law of every query",
        (
            LEVEL,
            SHARE,
            Column("query", "text", "the query group"),
            Column("alpha", "fraction", "its share of the level's budget"),
            Column("parameter", "number", "sigma squared of the discrete Gaussian, or the geometric scale, exactly"),
            Column("decimal", "number", "the same as a decimal", type="number"),
        ),
        text="noise.csv",
        delimiter=",",
        key=("level", "share", "query"),
    ),
)
