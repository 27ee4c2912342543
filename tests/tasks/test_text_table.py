"""Tables of text as CSV: what a spreadsheet reads."""

from __future__ import annotations

from tasks.releases.pages.text_table import TextTable


def test_figures_have_no_commas_between_thousands_and_words_keep_theirs() -> None:
    rows = [["1,400 and more", "1,400", "± 12,345,678.25", "1,000 to 2,000", "44,1"]]
    table = TextTable("", ["a", "b", "c", "d", "e"], rows)
    assert table.as_csv().splitlines()[1] == '"1,400 and more",1400,± 12345678.25,1000 to 2000,"44,1"'


def test_a_column_of_changes_is_two_columns_of_figures() -> None:
    table = TextTable("", ["level", "error", "same"], [["Tract", "1.23 → 1,102 (+812%)", "3"], ["A → B", "5", "4"]])
    assert table.as_csv().splitlines() == [
        'level,"error, first","error, second",same',
        "Tract,1.23,1102,3",
        "A → B,5,5,4",
    ]
