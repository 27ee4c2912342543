"""Describe the tables in a spine's folder; columns of standard errors are named by marginal and spine."""

from __future__ import annotations

from dataclasses import replace

from tasks.releases.description import Column, Table, integer, number

CLASS = Column("class", "code", "the class of the entities")
LEVEL = Column("level", "code", "the level of the spine")
SHARE = Column("share", "fraction", "the share of the budget")
OSED = number("osed_*", "geounits", "off-spine entity distance on the named spine")
ERROR = number("se_*", "persons or units", "standard error of the noise in a cell")
NO_PARENT = -1  # instead of null, which many readers convert to float columns
FANOUT = number("fanout_*", "geounits", "children of a geounit: least, quantiles, mean or most")


TABLES = (
    Table(
        "Geounits above the blocks",
        (
            LEVEL,
            integer("id", "number", "the geounit, in its level"),
            integer("parent", "number", f"the id of its parent in the level above; {NO_PARENT} at the root"),
            Column("geocode", "code", "its geocode on the spine"),
            SHARE,
            integer("fanout", "geounits", "its children"),
            integer("blocks", "blocks", "the blocks in it"),
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
            integer("*", "number", "the id of the geounit that it is in, by level"),
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
            integer("blocks", "blocks", "the blocks in it"),
            integer("population", "persons", "the persons in it, as the block table says", optional=True),
            OSED,
            ERROR,
        ),
        text="entities.csv",
        delimiter=",",
    ),
    Table(
        "Classes of entities",
        (CLASS, integer("entities", "entities", "how many there are"), OSED, ERROR),
        text="classes.csv",
        delimiter=",",
        key=("class",),
    ),
    Table(
        "Levels of the spines",
        (
            Column("spine", "code", "the spine"),
            LEVEL,
            integer("geounits", "geounits", "how many there are"),
            replace(SHARE, meaning="the share of the budget, before any bypass"),
            number("only_child", "geounits", "how many have one child"),
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
            number("decimal", "number", "the same as a decimal"),
        ),
        text="noise.csv",
        delimiter=",",
        key=("level", "share", "query"),
    ),
)
