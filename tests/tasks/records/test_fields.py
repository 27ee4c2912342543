"""Both readers of records go by the same fields, in every system: they take the same values as the same numbers."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from dhca_inputs import CODES, PROPERTY
from hypothesis import given
from hypothesis import strategies as st

from tasks.geography.grf_c import FIELDS
from tasks.records.fast_records import RecordLayout, parse_text
from tasks.records.record_fields import BOOLEAN, CODE, CODE_OR_NULL, LISTED, NULL, NUMBER, Field
from tasks.records.records import RecordFile, RowChecks
from tasks.records.tables import parse_rows
from tasks.s_dhc.records import KINDS
from tasks.safetab.households.household import HOUSEHOLD
from tasks.safetab.persons.person import PERSON

TABLES = {"person": PERSON.fields, "household": HOUSEHOLD.fields, "GRF-C": FIELDS} | {
    name: kind.fields for name, kind in KINDS.items()
}
LISTED_CODES = {code: number for number, code in enumerate(CODES, start=1)}
WORDS = ["Null", "null", "True", "Fals", "é", "٣", "0000000012", "9999"]
OTHER = st.text("0129 -x", max_size=6) | st.sampled_from(WORDS)


def likely(field: Field) -> st.SearchStrategy[str]:
    """Values of which most are valid."""
    if field.kind in (CODE, CODE_OR_NULL):
        return st.sampled_from([*CODES[:4], *[NULL] * (field.kind == CODE_OR_NULL)])
    if field.kind == BOOLEAN:
        return st.sampled_from(["True", "False"])
    most = field.most if field.kind in (LISTED, NUMBER) else 10**field.width - 1
    width = st.integers(1, 7) if field.kind == NUMBER else st.just(field.width)
    return st.tuples(st.sampled_from(sorted({field.least, min(field.least + 1, most), most})), width).map(
        lambda drawn: f"{drawn[0]:0{drawn[1]}d}"
    )


@pytest.mark.parametrize("fields", TABLES.values(), ids=TABLES)
@given(data=st.data())
@PROPERTY
def test_the_compiled_reader_takes_what_has_no_fault_and_counts_it_as_the_other_does(
    fields: Mapping[str, Field], data: st.DataObject
) -> None:
    good = data.draw(st.booleans(), "only likely values")
    columns = [likely(field) if good else likely(field) | OTHER for field in fields.values()]
    rows = data.draw(st.lists(st.tuples(*columns), min_size=1, max_size=5))
    body = "".join("|".join(row) + "\n" for row in rows).encode()
    parsed = parse_text(RecordLayout(fields, LISTED_CODES), tuple(fields), body)
    table, faults = parse_rows("t", body, tuple(fields), tuple(fields), dictionary=True)
    pairs = [pair for row in rows for pair in zip(fields.values(), row, strict=True)]
    valid = all(field.number(value) is not None for field, value in pairs)
    assert (parsed is not None) == (valid and not faults) or (valid and not good), "an unlisted code may be a fault"
    if parsed is not None:
        assert table is not None
        checks = RowChecks(RecordFile("t", tuple(fields), tuple(fields)), table)
        numbers, _ = checks.numbers(fields)
        assert not checks.findings
        assert numbers.tolist() == parsed.numbers.tolist()
