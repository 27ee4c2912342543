"""The columns of a Detailed DHC-A release, for its dictionary.csv and docs/spec/files.md."""

from __future__ import annotations

from tasks.detailed_dhca.details import LAST_AGE, SEXES
from tasks.inputs.names import NAME_COLUMNS, NAMES_FILE
from tasks.inputs.points import POINTS_FILE
from tasks.lifecycle.dictionary import LATITUDE, LONGITUDE, Column
from tasks.population_groups.iterations import KINDS
from tasks.population_groups.tabulated import HIERARCHY_FILE, ITERATIONS_FILE, REGIONS_FILE

REGION_TYPES = {
    "USA": "the nation: the states of the run",
    "STATE": "state",
    "COUNTY": "county or equivalent",
    "TRACT": "census tract",
    "PLACE": "place",
    "AIANNH": "American Indian, Alaska Native or Native Hawaiian area",
    "PR-STATE": "Puerto Rico",
    "PR-COUNTY": "municipio",
    "PR-TRACT": "census tract of Puerto Rico",
    "PR-PLACE": "place of Puerto Rico",
}
FLAGS = {"True": "yes", "False": "no"}
REGION = (
    Column("REGION_ID", "code", "the region by the digits of its FIPS codes; 1 for the nation"),
    Column("REGION_TYPE", "code", "the kind of region", REGION_TYPES),
)
ITERATION = Column("ITERATION_CODE", "code", "the characteristic iteration: 4 digits")
AGES = (
    Column("AGESTART", "years", "the first age of the cell; * in the row of a sex's sum"),
    Column("AGEEND", "years", f"the last age of the cell, inclusive; {LAST_AGE} is the open end; * in a sex's sum"),
    Column("SEX", "code", "the sex of the cell", {str(code): sex for code, sex in SEXES.items()}),
)
COUNT = Column("COUNT", "persons", "the published count, with noise")
ESTIMATE = Column("ESTIMATE", "persons", "the unbiased estimate from all noisy answers about the group, rounded")
MOE = Column("MOE", "persons", "the margin of error at 95% of the noise in the count, over all runs")
MOE_OF_ESTIMATE = Column("MOE", "persons", "the margin of error at 95% of the estimate")
LEVEL = Column("LEVEL", "code", "the level of the iteration", {"1": "Regional", "2": "Detailed"})
DICTIONARY = {
    "t1/*.csv": (*REGION, ITERATION, COUNT),
    "t2/*.csv": (*REGION, ITERATION, *AGES, COUNT),
    "parquet/t1/*.parquet": (*REGION, ITERATION, COUNT, MOE),
    "parquet/t2/*.parquet": (*REGION, ITERATION, *AGES, COUNT, MOE),
    "estimates/t1/*.csv parquet/estimates/t1/*.parquet": (*REGION, ITERATION, ESTIMATE, MOE_OF_ESTIMATE),
    "estimates/t2/*.csv parquet/estimates/t2/*.parquet": (*REGION, ITERATION, *AGES, ESTIMATE, MOE_OF_ESTIMATE),
    REGIONS_FILE: REGION[::-1],
    ITERATIONS_FILE: (
        ITERATION,
        Column("ITERATION_NAME", "text", "its name"),
        LEVEL,
        Column("NATION_STATE", "yes or no", "whether nation and state tabulate it", FLAGS),
        Column("SUB_STATE", "yes or no", "whether the levels below the state tabulate it", FLAGS),
        Column("TOTAL_ONLY", "yes or no", "whether nation and state give only its total", FLAGS),
    ),
    HIERARCHY_FILE: (
        ITERATION,
        Column(
            "KIND",
            "code",
            "whom it counts",
            dict(
                zip(
                    KINDS,
                    (
                        "persons all of whose races are in it",
                        "persons with at least one race in it",
                        "persons by Hispanic or Latino ethnicity",
                    ),
                    strict=True,
                )
            ),
        ),
        Column("REGIONAL_CODE", "code", "the Regional iteration of its kind that has all of its codes, if one has"),
    ),
    POINTS_FILE: (*REGION[::-1], LATITUDE, LONGITUDE),
    NAMES_FILE: (*REGION[::-1], Column(NAME_COLUMNS[-1], "text", "the name of the region")),
}
