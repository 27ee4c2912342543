"""Synthetic persons over real or made-up geography: what `das synth` does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tasks.errors import Failed, Refused
from tasks.run_directory import whole
from tasks.synth_blocks import Blocks, read_blocks
from tasks.synth_example import example_blocks
from tasks.synth_example_params import write_example_params
from tasks.synth_files import Format, Part, write_data
from tasks.synth_origins import Origins, follows, published_counts, read_origins
from tasks.synth_params import PUERTO_RICO, read_config, write_params
from tasks.synthetic import Mark

SHARES_FILE = "ddhca_published_national.csv.gz"


@dataclass(frozen=True)
class Options:
    """How to make it. progress: told the number of persons written, and of how many."""

    seed: int = 0
    form: Format = "text"
    threads: int = 2
    progress: Callable[[int, int], None] = lambda done, total: None


@dataclass(frozen=True)
class Made:
    """What was made: where it lies, what it holds, and its mark. shares: the published counts that it follows."""

    data: Path
    params: Path
    persons: int
    blocks: int
    states: list[str]
    shares: Path | None
    mark: Mark


def synthesize_blocks(table: Path, params: Path, out: Path, options: Options, shares: Path | None = None) -> Made:
    """Persons over a real block table, with exactly its block populations: OUT/data and OUT/params.

    shares: published national counts; None: SHARES_FILE beside the table or the parameters, if it is there and is of
    the same code list; else groups have the chances 1, 1/2, 1/3 ... in the order of the iterations.
    Raises Refused, Failed.
    """
    config = read_config(params)
    shares, counts = find_shares(shares, params, near=(table.parent, params.parent))
    blocks = read_blocks(table)
    countries = read_countries(params, counts, config)
    with new_folder(out) as folder:
        write_params(config, params, folder / "params", blocks.by_state())
        mark = _write(folder / "data", blocks, countries, "das synth", options)
    return _made(out, blocks, shares, mark)


def synthesize_example(out: Path, options: Options) -> Made:
    """The bundled example: a small made-up geography with its own code list. Raises Refused, Failed."""
    blocks = example_blocks()
    with new_folder(out) as folder:
        params = folder / "params"
        write_example_params(params, list(blocks.by_state()))
        countries = read_countries(params, None, read_config(params))
        mark = _write(folder / "data", blocks, countries, "das synth (example)", options)
    return _made(out, blocks, None, mark)


def find_shares(
    named: Path | None, params: Path, near: tuple[Path, ...]
) -> tuple[Path | None, dict[str, float] | None]:
    """The published counts to follow and the file they are in: the one named, else SHARES_FILE in a folder `near`."""
    for path in [named] if named else [folder / SHARES_FILE for folder in near]:
        if named or path.is_file():
            counts = published_counts(path)
            if follows(params, counts):
                return path, counts
            if named:
                raise Refused(f"{path} counts no race iteration of {params}: its codes are of another list")
    return None, None


def read_countries(params: Path, counts: dict[str, float] | None, config: dict[str, Any]) -> dict[bool, Origins]:
    """The law of origins in the United States (False) and in Puerto Rico (True)."""
    most = config["max_race_codes"]
    return {island: read_origins(params, counts, most_codes=most, puerto_rico=island) for island in (False, True)}


def _write(data: Path, blocks: Blocks, countries: dict[bool, Origins], generator: str, options: Options) -> Mark:
    return write_data(
        data,
        list(parts(blocks.by_state(), countries)),
        seed=options.seed,
        generator=generator,
        version=version("das-flows"),
        form=options.form,
        threads=options.threads,
        wrote=lambda done: options.progress(done, blocks.persons),
    )


def parts(states: dict[str, Blocks], countries: dict[bool, Origins]) -> Iterator[Part]:
    """The states in order, each with its place among all persons of its country (Puerto Rico is one of its own)."""
    totals = {False: 0, True: 0}
    for state, blocks in states.items():
        totals[state == PUERTO_RICO] += blocks.persons
    before = {False: 0, True: 0}
    for state, blocks in states.items():
        country = state == PUERTO_RICO
        yield Part(state, blocks, countries[country], before[country], totals[country])
        before[country] += blocks.persons


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """A folder that becomes `out` when the block ends well. Refuses an `out` that holds something."""
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise Refused(f"{out} exists already and is left as it is: name a new directory")
    try:
        with whole(out) as folder:
            folder.mkdir()
            yield folder
    except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
        raise Refused(f"{out} cannot be made: {error.strerror}") from error
    except OSError as error:
        raise Failed(f"{out} cannot be written: {error.strerror or error}; nothing was kept") from error


def _made(out: Path, blocks: Blocks, shares: Path | None, mark: Mark) -> Made:
    return Made(out / "data", out / "params", blocks.persons, len(blocks), list(blocks.by_state()), shares, mark)
