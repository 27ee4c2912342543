"""The columns of a TopDown release, for its dictionary.csv and docs/spec/files.md."""

from __future__ import annotations

from tasks.inputs.names import NAME_COLUMNS, NAMES_FILE
from tasks.inputs.points import POINTS_FILE
from tasks.lifecycle.dictionary import LATITUDE, LONGITUDE, Column
from tasks.top_down.input.public_input import QUARTERS

GQ_TYPES = {
    "0": "household",
    "1": "correctional facility",
    "2": "juvenile facility",
    "3": "nursing facility",
    "4": "other institutional facility",
    "5": "college housing",
    "6": "military quarters",
    "7": "other noninstitutional facility",
}
BLOCK = (
    Column("SCHEMA_TYPE_CODE", "code", "MPD: persons; MUD: units"),
    Column("SCHEMA_BUILD_ID", "text", "the program that made the file"),
    Column("TABBLKST", "code", "state, 2 digits"),
    Column("TABBLKCOU", "code", "county, 3 digits"),
    Column("TABTRACTCE", "code", "tract, 6 digits"),
    Column("TABBLKGRPCE", "code", "block group, 1 digit"),
    Column("TABBLK", "code", "block, 4 digits"),
)
COUNT = Column("COUNT", "records", "how many records of the block are so; none in text, which has a row each")
QUARTERS_COLUMNS = (
    Column(QUARTERS[0], "housing units", "declared: the housing units, without noise"),
    *(
        Column(name, "facilities", f"declared: facilities, without noise: {GQ_TYPES[name[-1]]}")
        for name in QUARTERS[1:]
    ),
)
GEOUNIT = Column("geounit", "code", "the geounit by its geocode on the spine, or by its public code")
PUBLIC = (
    Column(NAME_COLUMNS[0], "code", "the kind of geounit; COUSUB is a county subdivision"),
    Column(NAME_COLUMNS[1], "code", "its public code"),
)
DICTIONARY = {
    "mdf/*_persons.*": (
        *BLOCK,
        Column("EPNUM", "code", "999999999: the Bureau's field for a person's number, not used"),
        Column("RTYPE", "code", "where the person lives", {"3": "household", "5": "group quarters"}),
        Column("GQTYPE_PL", "code", "the type of group quarters", GQ_TYPES),
        Column("VOTING_AGE", "code", "of voting age", {"1": "under 18", "2": "18 and over"}),
        Column("CENHISP", "code", "Hispanic or Latino", {"1": "no", "2": "yes"}),
        Column("CENRACE", "code", "01 to 63: the set of races, those of one race first, then of two to six"),
        COUNT,
    ),
    "mdf/*_units.*": (
        *BLOCK,
        Column("RTYPE", "code", "what it is", {"2": "housing unit", "4": "group quarters"}),
        Column("HH_STATUS", "code", "its status", {"0": "group quarters", "1": "occupied", "2": "vacant"}),
        COUNT,
    ),
    "histograms/persons/*.parquet": (
        GEOUNIT,
        Column("cell", "code", "((GQTYPE_PL * 2 + voting age) * 2 + Hispanic) * 63 + race, each from 0"),
        Column("count", "persons", "the released count; cells of 0 have no row"),
    ),
    "histograms/units/*.parquet": (
        GEOUNIT,
        Column("cell", "code", "the status of the unit", {"0": "vacant", "1": "occupied"}),
        Column("count", "housing units", "the released count; cells of 0 have no row"),
    ),
    "invariants/*.parquet": (GEOUNIT, *QUARTERS_COLUMNS),
    "margins/*.parquet": (
        GEOUNIT,
        Column("count", "text", "what is counted"),
        Column("released", "persons or units", "the released count"),
        Column("margin", "persons or units", "its margin of error at 95%; empty where it would not be the release's"),
        Column("estimate", "persons or units", "the unbiased estimate; not rounded, and may be negative"),
        Column("standard_error", "persons or units", "the standard error of the estimate"),
    ),
    "measurements/blocks/*.parquet": (
        Column("geocode", "code", "the block: its 15 digits, with the block group before the block"),
        Column("place", "code", "place, 99999 for none"),
        Column("cousub", "code", "county subdivision"),
        Column("aiannh", "code", "AIANNH area, 9999 for none"),
        Column("gq", "bits", "which of the seven types of group quarters it has, the first type leftmost"),
        Column("universe", "yes or no", "whether it has living quarters"),
        *QUARTERS_COLUMNS,
    ),
    "measurements/persons/*.parquet measurements/units/*.parquet": (
        GEOUNIT,
        Column("query", "text", "the query group"),
        Column("value", "persons or units", "its noisy answers, in the order of its coordinates"),
        Column("share", "fraction", "the share of the product's budget that the geounit has"),
        Column("variance_numerator", "number", "with the denominator, the exact parameter of the noise"),
        Column("variance_denominator", "number", "sigma squared of the discrete Gaussian, or the geometric scale"),
        Column("variance", "persons or units, squared", "the variance of the noise in one answer"),
    ),
    "nmf/*.parquet": (
        Column("geocode", "code", "the geounit's geocode, as the Census Bureau's files write it"),
        Column("query_name", "text", "the query, with _dpq for a noisy answer and _con for a constraint"),
        Column("sign", "text", "of a constraint: how value and count compare"),
        Column("hhgq", "text", "the axis of households and group-quarters types: the values that an answer sums"),
        Column("votingage", "text", "the axis of voting age, likewise"),
        Column("hispanic", "text", "the axis of Hispanic or Latino ethnicity, likewise"),
        Column("cenrace", "text", "the axis of the 63 sets of races, likewise"),
        Column("h1", "text", "the axis of vacant and occupied units, likewise"),
        Column("query_shape", "number", "the shape of the answers"),
        Column("value", "persons or units", "the answers in C order of the shape"),
        Column("variance", "persons or units, squared", "the variance of the noise in one answer"),
        Column("plb", "rho", "the budget of the query in the geounit"),
    ),
    NAMES_FILE: (*PUBLIC, Column(NAME_COLUMNS[-1], "text", "its name")),
    POINTS_FILE: (*PUBLIC, LATITUDE, LONGITUDE),
}
