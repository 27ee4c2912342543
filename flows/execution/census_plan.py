"""The plan of a census: one file that names products, their settings as their commands have them, and accounts.

Every product keeps a run, a secret and a charge of its own. Its run id is made of the census's name and its own, so the
same file finds the runs that it began, whatever happened to them. A product whose settings name a release in the folder
of another waits for that one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from flows.execution.option import Option, validated
from flows.execution.run_status import is_there, released_place
from flows.execution.settings import RUN_ID, ClusterSettings, Folder, Location, RunSettings, is_path, load_settings
from flows.execution.systems import SYSTEMS
from privacy.accounting.composition import UnitOfPrivacy
from privacy.accounting.journal import Books, MarkName, Row
from privacy.accounting.states import STATES_PR, STATES_US
from tasks.errors import Refused
from tasks.lifecycle.authorization import SECRET, may_draw
from tasks.lifecycle.commit import is_released
from tasks.lifecycle.reservation import Claim, ledger_errors, precheck
from tasks.lifecycle.staging import staging
from tasks.records.declarations import read_raw
from tasks.records.findings import NotValid
from tasks.records.marks import read_mark
from tasks.releases.manifest import is_whole

PAGE = "index.html"  # in OUT, next to the folders of products


class CensusSettings(BaseModel):
    """The settings of the flow of a census: its plan, and what all of its products share.

    Only a command runs it: without one, nobody agrees to the charges.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    plan: Location = Field(description="The file of the plan.")
    ledger: Location
    runs_folder: Location
    cluster: ClusterSettings = Field(default_factory=ClusterSettings)

    @property
    def title(self) -> str:
        """The name of the flow run."""
        return f"census {Path(self.plan).stem}"


class Form(BaseModel):
    """The file of a plan; its products are read as the settings of their systems."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=rf"^{RUN_ID}$")
    out: Folder
    accounts: dict[UnitOfPrivacy, str] = Field(default_factory=dict)
    second_account: bool = False
    sign: Location | None = None
    products: list[dict[str, Any]] = Field(min_length=1)


@dataclass(frozen=True)
class Charge:
    """The charge of a part of a product, as planned or as made.

    claim: what its run asks for; before its input is read, by its configuration, for all states that may be charged.
    mark: its data's; marked data is not charged. made: whether it was charged before.
    """

    part: RunSettings
    claim: Claim
    mark: MarkName | None = None
    made: bool = False

    @property
    def is_new(self) -> bool:
        """Whether an account is yet to be charged."""
        return not (self.made or self.mark)


@dataclass(frozen=True)
class Product:
    """A product of a census: its place in the plan, its name there and in OUT, and its settings for all parts."""

    key: str
    name: str
    settings: RunSettings
    waits_for: tuple[str, ...] = ()

    @property
    def parts(self) -> Sequence[RunSettings]:
        """The settings of each part."""
        return self.settings.parts

    @property
    def begun(self) -> list[RunSettings]:
        """The parts that have a confidential directory, so that their run is not over."""
        return [part for part in self.parts if is_there(part) and load_settings(part.directory)]

    @property
    def releases(self) -> list[Path]:
        """The releases of its parts that are in their place and whole."""
        return [place for part in self.parts if (place := released_place(part))]

    @property
    def is_over(self) -> bool:
        """Whether its run has ended with a release. Its other parts, if any, had nothing to release."""
        return not self.begun and bool(self.releases)

    @property
    def may_draw(self) -> bool:
        """Whether its run was reserved, and so is past its validation."""
        return any(may_draw(part.directory) for part in self.begun)

    @property
    def rest(self) -> RunSettings:
        """The settings with which its run begins or continues, without a part that has ended."""
        begun = self.begun
        return begun[-1].without_ended() if 0 < len(begun) < len(self.parts) else self.settings

    def charges(self, books: Books) -> Iterator[Charge]:
        """Yield what each part is charged: as made or, before its input is read, by its configuration.

        Raises Refused if a part was charged and cannot be continued.
        """
        reserved, begun = self.is_over or self.may_draw, [part.run_id for part in self.begun]
        for part in self.parts:
            row, spend = books.runs.get(str(part.run_id)), books.spends.get(str(part.run_id))
            if row and spend:
                self._check_can_go_on(part, row)
                yield Charge(part, Claim(part.directory, row.states, spend), made=True)
            elif not reserved or part.run_id in begun or released_place(part):  # else it had nothing to release
                spend = max(part.foreseen_spends().values(), key=lambda each: each.charged)
                states = part.charged_states() or (STATES_PR if part.folder == "pr" else STATES_US)
                mark = read_mark(part.marks)
                yield Charge(part, Claim(part.directory, states, spend), mark.name if mark else None)

    def _check_can_go_on(self, part: RunSettings, row: Row) -> None:
        """Refuse a part that was charged to another account than the plan's, or whose release can no longer be made."""
        if part.account != row.account:
            named = part.account or "none"
            raise Refused(f"run {part.run_id} was charged to account {row.account}, but the plan names {named}")
        status = row.status
        staged = is_whole(staging(part.directory, Path(part.out), part.folder))
        placed = is_released(part.directory, Path(part.out), part.folder)
        lost = not (placed or (status == "sealed" and staged) or (part.directory / SECRET).exists())
        if status == "abandoned" or (status != "released" and lost):
            why = "it was abandoned" if status == "abandoned" else f"its secret is not in {part.directory.path}"
            raise Refused(
                f"run {part.run_id} was charged and cannot go on, since {why}: if that is elsewhere or not mounted, "
                "give its --runs-folder; if it is lost, another name of the product is a new run and a new charge"
            )

    @contextmanager
    def named(self) -> Iterator[None]:
        """Put the product's place in the plan before a refusal."""
        try:
            yield
        except NotValid as refused:
            raise NotValid(f"{self.key} ({self.name}): {refused}", refused.findings) from None
        except Refused as refused:
            raise Refused(f"{self.key} ({self.name}): {refused}") from None


@dataclass(frozen=True)
class Census:
    """A census: its products in the order in which they run."""

    name: str
    out: Path
    products: tuple[Product, ...]

    def charges(self, books: Books) -> dict[str, list[Charge]]:
        """Return what each product is charged, by name. Raises Refused."""
        found = {}
        for product in self.products:
            with product.named():
                found[product.name] = list(product.charges(books))
        return found

    def is_waiting(self, product: Product) -> bool:
        """Return whether a release that the product reads is not there yet."""
        return any(not each.is_over for each in self.products if each.name in product.waits_for)


def read_census(settings: CensusSettings) -> Census:
    """Read a plan. Relative paths are from its folder. Raises Refused, with the key of the first fault; NotValid."""
    file = Path(settings.plan)
    raw = _resolved(Form, read_raw(str(file)), file.parent)
    form = validated(Form, raw)
    if placeholder := re.search("{(date|product|run)}", form.out):
        raise Refused(f"out: {placeholder[0]} stands for something of a single run: a census has one folder")
    shared = settings.model_dump(include={"ledger", "runs_folder"}) | {"cluster": settings.cluster, "sign": form.sign}
    shared["second_account"] = form.second_account
    products = [_product(form, at, each, file.parent, shared) for at, each in enumerate(form.products)]
    for at, product in enumerate(products):
        for earlier in products[:at]:
            runs = {part.run_id for part in earlier.parts} & {part.run_id for part in product.parts}
            if runs or earlier.name == product.name:
                same = f"has run {min(map(str, runs))}" if runs else f"is {earlier.name}"
                raise Refused(f"{product.key}.name: {earlier.key} {same} too: give each a name of its own")
    return Census(form.name, Path(form.out), tuple(_in_order(products, Path(form.out))))


def _resolved(kind: type[BaseModel], values: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return settings whose relative paths are from a folder: values of path settings, and names of other files."""
    fields = kind.model_fields
    return {
        name: str(folder.absolute() / value)
        if isinstance(value, str) and "://" not in value and name in fields and is_path(fields[name], value)
        else value
        for name, value in values.items()
    }


def _product(form: Form, at: int, values: Mapping[str, Any], folder: Path, shared: Mapping[str, Any]) -> Product:
    key, own = f"products.{at}", dict(values)
    system = own.pop("system", None)
    if not isinstance(system, str) or system not in SYSTEMS:
        raise Refused(f"{key}.system: give one of {', '.join(SYSTEMS)}" + (f", not {system!r:.40}" if system else ""))
    name = own.pop("name", system)
    if not (isinstance(name, str) and re.fullmatch(RUN_ID, name)) or name == PAGE:
        raise Refused(f"{key}.name: {name!r:.40} is not a name: use letters, digits, dots, dashes and underscores")
    kind: type[RunSettings] = SYSTEMS[system].part("settings_class")
    fields, common = kind.model_fields, RunSettings.model_fields.keys()
    typed = {each for each, about in fields.items() if any(isinstance(of, Option) for of in about.metadata)}
    if unknown := sorted(own.keys() - (typed - common)):
        raise Refused(f"{key}.{unknown[0]}: there is no such key for {system}")
    own = _resolved(kind, own, folder) | {"out": f"{form.out}/{name}"}
    derived = {each for each, about in fields.items() if about.is_required()} - typed  # as a jurisdiction, by new_run
    validated(kind, dict.fromkeys(derived, "us") | own, f"{key}.")
    product = Product(key, name, kind.model_construct())
    with product.named():
        settings = kind.new_run(f"{form.name}-{name}", {**shared, **own})
        unit = next(iter(settings.foreseen_spends().values())).unit
    return replace(product, settings=settings.model_copy(update={"account": form.accounts.get(unit)}))


def _in_order(products: Sequence[Product], out: Path) -> Iterator[Product]:
    """Yield products after those whose releases they read. Raises Refused if products wait for each other."""
    by_name = {product.name: product for product in products}
    waits = {product.name: _waits_for(product, by_name, out) for product in products}
    try:
        for name in TopologicalSorter(waits).static_order():
            yield replace(by_name[name], waits_for=waits[name])
    except CycleError as error:
        raise Refused(f"products wait for each other: {', '.join(error.args[1])}") from None


def _waits_for(product: Product, others: Mapping[str, Product], out: Path) -> tuple[str, ...]:
    """Return the names of the products whose releases a product reads. Raises Refused for a release that none makes."""
    names, reads = dict[str, None](), product.settings.READS
    with product.named():
        for release in map(Path, product.settings.releases()):
            if not release.is_relative_to(out):
                continue
            name, *folders = release.relative_to(out).parts or ("",)
            if name not in others:
                raise Refused(f"it reads {release}, which no product of the plan makes")
            if others[name].settings.SYSTEM not in reads:
                raise Refused(f"it reads {name}, which is not a release of {' or '.join(reads)}")
            wanted = folders[:1] or [part.folder for part in product.parts]
            if lacking := sorted({*wanted} - {part.folder for part in others[name].parts}):
                raise Refused(f"it reads {name}/{lacking[0]}, which {name} does not make")
            names[name] = None
    return tuple(names)


def read_books(plan: Census) -> Books:
    """Return the accounts and charges of the census's ledger; empty without a ledger. Raises Refused, Failed."""
    charging = plan.products[0].settings.charging
    with ledger_errors("accounts"):
        return charging.book.books() if charging.book.exists() else Books()


def check_accounts(charges: Mapping[str, Sequence[Charge]]) -> None:
    """Refuse what the accounts would refuse of the charges, one after the other. Charges nothing.

    Raises Refused, Failed.
    """
    every = [charge for own in charges.values() for charge in own]
    new, marked = [charge for charge in every if charge.is_new], set[str]()
    for charge in new:
        if not charge.part.account:
            unit, definition = charge.claim.spend.unit, charge.claim.spend.definition
            opens = f"das ledger open NAME --unit {unit} --definition {definition} --total TOTAL"
            raise Refused(
                f"accounts.{unit}: it is missing: {charge.part.run_id} charges an account for {unit}s ({opens})"
            )
    for charge in every:
        if charge.mark and charge.claim.given:
            precheck(charge.part.charging, charge.claim)
            marked |= charge.claim.request(charge.part.charging).digests
    requests = [charge.claim.request(charge.part.charging) for charge in new]
    if again := [request.run for request in requests if marked & request.digests]:
        raise Refused(f"run {again[0]}: its data is marked as synthetic or public for another product")
    try:
        with ledger_errors("accounts"):
            if new:
                new[0].part.charging.book.precheck(*requests)
    except Refused as refused:
        raise Refused(f"accounts: {refused}") from None
