"""Estimate a wide declaration from the top down, reading few answers; then sum its leaves to every level.

```
noisy/NAME/steps/LEVEL/FIRST    what a level above the leaves is divided from
noisy/NAME/read/LEVEL/FIRST     the addresses of the answers that were read for a batch, with the answers
```
Below a parent, records may switch between parts of a repaired count, so estimates are the leaves and their sums. All of
it is a function of the answers that were read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from spine.geography import IntArray
from spine.top_down.histogram import Estimates, joined
from tasks.lifecycle.authorization import is_truth
from tasks.lifecycle.files import (
    complete,
    narrowest,
    open_array,
    save_arrays,
    save_object,
)
from tasks.lifecycle.workers import Workers
from tasks.memory import return_memory
from tasks.top_down.declared.public_tables import Declared
from tasks.top_down.declared.source import ALL, DeclarationSource, DeclaredRun
from tasks.top_down.estimate import estimators
from tasks.top_down.estimate.topdown import SOLVES, estimate_by_topdown, load_estimates
from tasks.top_down.input.histograms import sum_levels
from tasks.top_down.source import Branch, Source, save_histograms

if TYPE_CHECKING:
    from spine.wide.estimate import WideEstimation

Numbers: TypeAlias = NDArray[np.signedinteger]
STEPS, READ = "steps", "read"  # in place of the branch, folders of what is estimated before the leaves, and of answers


class ReadAnswers(NamedTuple):
    """Answers of a level that were read, all (n,), in narrow types. query: its number among those of the level."""

    query: Numbers
    geounit: Numbers
    coordinate: Numbers
    answer: Numbers


@dataclass
class AnswerReader:
    """Reads answers at addresses, and keeps them: all that estimation is handed of the records."""

    at: Callable[[str, str, IntArray, IntArray], IntArray]
    queries: Callable[[str], list[str]]
    kept: dict[str, list[ReadAnswers]] = field(default_factory=dict)

    def __call__(self, level: str, query: str, geounits: IntArray, coordinates: IntArray) -> IntArray:
        """Return the answers, as `spine.wide.ReadAt`."""
        answers, number = self.at(level, query, geounits, coordinates), self.queries(level).index(query)
        columns = np.full(len(answers), number), geounits, coordinates, answers
        self.kept.setdefault(level, []).append(ReadAnswers(*map(narrowest, columns)))
        return answers


def estimate(run: DeclaredRun, workers: Workers) -> None:
    """Estimate the histograms of a run: those of a wide declaration from few answers; a truth takes the exact ones."""
    if is_truth(run) or not run.declared.is_wide:
        estimators.estimate(run, workers)
    else:
        estimate_wide(run, workers)


def estimate_wide(source: DeclarationSource, workers: Workers) -> None:
    """Estimate the histograms of all geounits."""
    estimate_by_topdown(source, workers, estimate_batch)
    sum_levels("sum leaves", source, workers, exact=False)


def estimate_batch(
    source: DeclarationSource, branch: Branch, first: int, last: int | None, level: str, lowest: str
) -> None:
    """Divide the geounits first ... last - 1 of a level among those of the level below; at the top, find them first.

    The record of the solved parents is saved last.
    """
    done = source.estimates_folder(branch, SOLVES) / f"{lowest}-{first:07d}"
    if done.exists():
        return
    from spine.wide.estimate import WideEstimation  # imports numba

    declared = source.declared
    plan, levels = declared.wide_plan, declared.hierarchy.spine.levels
    reading = AnswerReader(source.read_at(), declared.declaration.queries)
    estimation = WideEstimation(plan, reading, declared.declaration.form.passes[0].rounding)
    if level == levels[0]:
        return_memory()  # of reading records
        roots = range(len(plan.spine.starts[0]))
        parents = joined([_divided(source, estimation, None, 0, root, root + 1) for root in roots])
        _save(source, parents)
    else:
        parents = load_estimates(source, Branch(branch.product, STEPS), level, first, last)
    number = levels.index(lowest)
    ends = plan.spine.first_child[number - 1][parents.first : parents.last + 1].tolist()
    children = [
        _divided(source, estimation, parents.only(parent), number, start, end)
        for parent, start, end in zip(range(parents.first, parents.last), ends, ends[1:], strict=False)
    ]
    _save(source, joined(children))
    for name, kept in reading.kept.items():
        columns = zip(ReadAnswers._fields, zip(*kept, strict=True), strict=True)
        answers = {key: narrowest(np.concatenate(parts)) for key, parts in columns}
        save_arrays(source.estimates_folder(Branch(branch.product, READ), name) / f"{first:07d}", answers)
    save_object(done, estimation.solved)


def _divided(
    source: DeclarationSource, estimation: WideEstimation, parent: Estimates | None, level: int, first: int, last: int
) -> Estimates:
    """Return the children first ... last - 1 of a parent, or a root."""
    released = source.declared.released
    assert released is not None
    sums, counts = released.of(level, first, last)
    if parent is None:
        return estimation.root(first, sums, counts)
    return estimation.children(parent, first, sums, counts)


def _save(source: DeclarationSource, steps: Estimates) -> None:
    levels = source.declared.hierarchy.spine.levels
    branch = Branch(source.name, ALL if steps.level == len(levels) - 1 else STEPS)
    save_histograms(source.estimates_folder(branch, levels[steps.level]) / f"{steps.first:07d}", steps)


def load_answers(source: Source, product: str, level: str) -> Iterator[ReadAnswers]:
    """Yield the answers of a level that estimation read, a batch at a time."""
    folder = source.estimates_folder(Branch(product, READ), level)
    for path in complete(folder) if folder.exists() else []:
        yield ReadAnswers(*(np.asarray(open_array(path, name)) for name in ReadAnswers._fields))


def defined_answers(declared: Declared) -> dict[str, int]:
    """Return by level how many answers the queries define."""
    spine = declared.hierarchy.spine
    shares = zip(spine.levels, spine.shares, strict=True)
    return {level: declared.widths[level] * int((own > 0).sum()) for level, own in shares}


def count_answers(source: DeclarationSource) -> dict[str, dict[str, int]]:
    """Return by level the answers that the queries define, and those that estimation read."""
    found = {}
    for level, defined in defined_answers(source.declared).items():
        folder = source.estimates_folder(Branch(source.name, READ), level)
        read = sum(len(open_array(path, "query")) for path in (complete(folder) if folder.exists() else []))
        found[level] = {"defined": defined, "read": read}
    return found
