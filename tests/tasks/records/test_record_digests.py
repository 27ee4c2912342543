"""A state's records have one digest in any order, chunks, file, format and company, and another if one is changed.

So has a table of one's own: tests/systems/test_runs.py has each system's.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from dhca_inputs import HERE, Inputs, cut_files, new_run, people, validate_here
from top_down_inputs import country, design, tables

from tasks.records.marks import MARK_FILE
from tasks.records.record_digests import TABLE, digests, sum_rows
from tasks.records.tables import EncodedColumn
from tasks.top_down.input.block_run import TopDownRun
from tasks.top_down.input.validation import validate


def known(folder: Path, inputs: Inputs, jurisdiction: Any, *, parquet: bool = False) -> tuple[str, ...]:
    """The digests of the states' persons, after that of the file."""
    params, data = inputs.write(folder)
    text = data / "person-records.txt"
    if parquet:
        strings = pc.ConvertOptions(column_types=dict.fromkeys(inputs.persons[0], "string"), strings_can_be_null=False)
        table = pc.read_csv(text, parse_options=pc.ParseOptions(delimiter="|"), convert_options=strings)
        pq.write_table(table, text.with_suffix(".parquet"), row_group_size=7)
        text.unlink()
    validated, findings = validate_here(new_run(folder, f"run-{jurisdiction}"), params, data, jurisdiction)
    assert validated is not None, findings
    file, *states = validated.records_digests
    assert file not in states
    return tuple(states)


def test_persons_of_a_jurisdiction_are_known_whatever_is_beside_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = Inputs()
    inputs.config |= {"run_us": True, "run_pr": True}
    us, pr = people(40), people(30, seed=2, blocks=inputs.blocks[7:])
    codes = list(inputs.codes)

    def digests(name: str, persons: list[dict[str, str]], jurisdiction: str = "pr", **form: Any) -> tuple[str, ...]:
        inputs.persons = persons
        return known(tmp_path / name, inputs, jurisdiction, **form)

    plain = digests("plain", us + pr)
    assert len(plain) == 1
    assert digests("other", [{**person, "QAGE": "7"} for person in us] + pr) == plain
    assert digests("parquet", us + pr, parquet=True) == plain
    inputs.codes = codes[::-1]  # other numbers inside, the same codes
    mixed = us + pr
    random.Random(1).shuffle(mixed)
    with monkeypatch.context() as patch:
        cut_files(patch, 700)
        assert digests("mixed", mixed) == plain
    first, second, *others = pr
    changed = [
        others,
        [first, first, second, *others],
        [{**first, "QSEX": "12".replace(first["QSEX"], "")}, second, *others],
    ]
    result = {digests(f"changed-{number}", us + persons) for number, persons in enumerate(changed)}
    assert len(result | {plain}) == 4
    assert set(digests("us", us + pr, "us")).isdisjoint(plain)


def test_records_of_the_topdown_algorithm_are_known_by_state(tmp_path: Path) -> None:
    data = country(tmp_path, ("44", "46"))
    (data / MARK_FILE).unlink()

    def digests(name: str, **which: Any) -> set[str]:
        run = TopDownRun(tmp_path / "runs" / name)
        run.create()
        return set(validate(run, HERE, tables(data), design(**which), None).records_digests)

    both = digests("both")
    path = data / "persons.txt"
    header, *lines = path.read_text().splitlines()
    path.write_text("\n".join([header, *reversed(lines)]) + "\n")
    again = digests("again")
    assert len(both & again) == 5, "each product's two states, and the file of units"
    assert len(digests("one", states=(44,)) & again) == 4, "both files, and one state of each"


def test_rows_of_a_table_are_known_by_their_texts_in_any_order_of_rows_columns_and_chunks() -> None:
    rows = [("a", "1"), ("a", "2"), ("b", "1"), ("b", "1"), ("ab", "")]

    def known(*chunks: list[tuple[str, ...]], names: str = "xy") -> tuple[str, ...]:
        columns = [dict(zip(names, map(list, zip(*chunk, strict=True)), strict=True)) for chunk in chunks]
        arrays = [{name: pa.chunked_array([texts], pa.string()) for name, texts in each.items()} for each in columns]
        return digests(
            TABLE, [sum_rows({name: EncodedColumn(array) for name, array in each.items()}) for each in arrays]
        )

    assert len(known(rows)) == 1
    assert known(rows[3:], rows[2::-1]) == known(rows)
    assert known([row[::-1] for row in rows], names="yx") == known(rows)
    changed = [
        rows[1:],
        [*rows, rows[0]],
        [("a", "1"), ("a", "1"), ("b", "2"), ("b", "1"), ("ab", "")],  # the same texts in each column
        [("a", "1"), ("a", "2"), ("b", "1"), ("b", "1"), ("a", "b")],
        [row[::-1] for row in rows],
    ]
    assert len({known(each) for each in [rows, *changed]}) == 6
