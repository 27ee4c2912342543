"""How fast `das synth` makes a state, and in how much memory: persons alone as text, and every system as Parquet.

    python benchmarks/synth.py FOLDER [--state 39] [--params PARAMS]

Start-up included, with kernels that are compiled already. Files go to FOLDER and are deleted again. A state is made by
itself, one at a time, so the nation takes as long as its persons, and the memory of its largest state.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from measure import DATA, arguments, bytes_below, describe, machine, measure_das

FORMS = {"persons alone, text": (), "every system, Parquet": ("--for", "all", "--record-format", "parquet")}


def main() -> None:
    """Measure both and print a table."""
    parser = arguments(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--state", default="39")
    parser.add_argument("--params", type=Path, default=DATA / "params-2020-production")
    given = parser.parse_args()
    print(machine())
    for name, form in FORMS.items():
        out = given.folder / "synth"
        words = ("synth", "nation", out, "--only-state", given.state, "--params", given.params, *form)
        measured, made = measure_das(*words)
        written = bytes_below(out) / 1e9
        shutil.rmtree(out)
        print(f"{name}: {made['persons']:,} persons, {describe(measured)}, {written:.2f} GB written")


if __name__ == "__main__":
    main()
