"""The statements that a release's manifest must make according to its system, compared with those that it makes.

A system makes its manifest again from the configuration in the manifest and from the tables; an `Unshown` replaces a
value that nothing else in the release shows. A missing, unknown or different statement is a fault, and unshown values
are listed as not checked, so an omission in a received manifest is always noticed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Annotated, Any, NotRequired

from pydantic import StringConstraints, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from privacy.noise.randomness import NOISE_SCHEME_VERSION
from tasks.releases.check import Check, NotChecked, is_close
from tasks.releases.manifest import FORMAT, LIBRARIES, MARKS, NOT_PRIVATE

Line = Annotated[str, StringConstraints(min_length=1, max_length=500, pattern=r"^[^\x00-\x1f]*$")]
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


@with_config({"extra": "forbid"})
class CodeVersion(TypedDict):
    """The code of a run: its version and digest, and the commit where it was run from a repository."""

    version: Line
    digest: Digest
    commit: NotRequired[Line]


OF_THE_RUN = "only the ledger and the publisher's signature show it"
PUBLIC_FILE = "the public input is not a file of the release"


@dataclass(frozen=True)
class Unshown:
    """A statement whose value nothing else in a release shows: only its form is checked.

    kind: its type, validated strictly by pydantic; an object or a list must not be empty unless `kind` says so. why:
    the reason, for `das check`.
    """

    kind: Any
    why: str

    def fault(self, stated: Any) -> str | None:
        """Return the fault in the form of a value, or None."""
        try:
            TypeAdapter(self.kind).validate_python(stated, strict=True)
        except ValidationError as error:
            return str(error.errors()[0]["msg"])
        return None


def common(title: str, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the statements that every release makes, whatever its system.

    Marks and exact counts are stated in this program's words. A mark decides whether the manifest must name a journal.
    """
    marks = {name: text for name, text in (*MARKS.items(), ("NOT_PRIVATE", NOT_PRIVATE)) if name in manifest}
    versions = manifest["versions"]
    names = ("das-flows", "python", *LIBRARIES) if versions["das-flows"] == version("das-flows") else versions
    charged = bool(manifest.get("spent")) and not set(MARKS) & set(marks)
    drawn = "noise_scheme" in manifest or not manifest.get("source")  # published noise was not drawn here
    return {
        "format": FORMAT,
        "release": title,
        "run": Unshown(Line, OF_THE_RUN),
        **marks,
        **({"noise_scheme": NOISE_SCHEME_VERSION} if drawn else {}),
        "versions": dict.fromkeys(names, Unshown(Line, OF_THE_RUN)),
        "code": Unshown(CodeVersion, OF_THE_RUN),
        **({"journal": Unshown(Digest, OF_THE_RUN)} if charged else {}),
    }


def check_statements(expected: Mapping[str, Any], manifest: Mapping[str, Any]) -> Iterator[Check | NotChecked]:
    """Compare all statements of a manifest, except the digests of its files, with those that its system expects."""
    stated = {name: value for name, value in manifest.items() if name != "files"}
    found = list(_compare(expected, stated, ()))
    faults = tuple(each for each in found if isinstance(each, str))
    yield Check("statements of the manifest", f"{len(stated)} statements", faults)
    yield from (each for each in found if isinstance(each, NotChecked))


def _compare(expected: Any, stated: Any, path: tuple[str, ...]) -> Iterator[str | NotChecked]:
    """Yield the faults of a statement, and its parts that are not checked."""
    name = ".".join(path)
    if isinstance(expected, Unshown):
        fault = expected.fault(stated)
        if fault or (stated in ({}, [], None, "") and not _may_be_empty(expected)):
            yield f"{name} is not stated as it must be: {fault or 'it is empty'}"
        else:
            yield NotChecked(name, expected.why)
    elif isinstance(expected, Mapping) and isinstance(stated, Mapping):
        yield from (f"{'.'.join((*path, str(key)))} is not stated" for key in expected if key not in stated)
        unknown = (f"{'.'.join((*path, str(key)))!a:.100} is not a statement of such a release" for key in stated)
        yield from (fault for key, fault in zip(stated, unknown, strict=True) if key not in expected)
        for key in (key for key in expected if key in stated):
            yield from _compare(expected[key], stated[key], (*path, str(key)))
    elif isinstance(expected, list | tuple) and isinstance(stated, list):
        if len(expected) != len(stated):
            yield f"{name} has {len(stated)} entries, not {len(expected)}"
        for at, (one, other) in enumerate(zip(expected, stated, strict=False)):
            yield from _compare(one, other, (*path, str(at)))
    elif not _same(expected, stated):
        yield f"{name}: it is {expected!s:.80}, not {stated!s:.80}"


def _may_be_empty(expected: Unshown) -> bool:
    """Return whether the kind of a statement allows an empty value."""
    return bool(getattr(expected.kind, "__metadata__", ()))


def _same(expected: Any, stated: Any) -> bool:
    """Return whether a JSON value equals the expected one; true is not 1, and decimals may differ by rounding."""
    if isinstance(expected, bool) or isinstance(stated, bool) or not isinstance(expected, int | float):
        return type(expected) is type(stated) and bool(expected == stated)
    return isinstance(stated, int | float) and is_close(expected, stated)
