"""Options of a command from the fields of settings, which declare name, type, help and default once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum, StrEnum
from functools import wraps
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import typer
from annotated_types import Ge
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from typer.models import ArgumentInfo, OptionInfo

from flows.execution.option import Argument, Option, refuse_url, validated
from flows.execution.settings import RunSettings
from flows.reports.terminal import Json, printing
from tasks.lifecycle.annotations import resolve_alias

Command = TypeVar("Command", bound=Callable[..., None])
Values = dict[str, Any]  # typed settings, by name
KEYWORD_ONLY = inspect.Parameter.KEYWORD_ONLY
TYPED = "COMMANDLINE"  # compared by name, because typer has its own copy of click's ParameterSource


@dataclass(frozen=True)
class Settings:
    """Annotates a command's parameter of typed settings, which stands for the options of these fields, by default all.

    needed: whether those without a default must be typed; False if another option can replace them. default: the value
    if an option is not typed, in words, in place of the fields' defaults. instead: other defaults, by field.
    """

    model: type[BaseModel]
    names: Collection[str] | None = None
    needed: bool = True
    default: str | None = None
    instead: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class _Group:
    """The options that stand for one parameter of a command, and the function that builds its value."""

    parameters: list[inspect.Parameter]
    build: Callable[[dict[str, Any]], Any]


def with_options(command: Command) -> Command:
    """Give a command, in place of each parameter that is a group of options, an option for each of its fields.

    A group is a dataclass, a model of settings, or a parameter with `Settings`. The command gets --json, and refuses
    URLs for its parameters that are paths.
    """
    parameters, groups = _options_and_groups(command)
    parameters.append(inspect.Parameter("as_json", KEYWORD_ONLY, default=False, annotation=Json))

    @wraps(command)
    def called(**values: Any) -> None:
        for value in values.values():
            for path in value if isinstance(value, list) else [value]:
                if isinstance(path, Path):
                    refuse_url(path)
        chosen = {name: group.build(values) for name, group in groups.items()}
        with printing(as_json=values.pop("as_json")):
            command(**values, **chosen)

    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return called  # type: ignore[return-value]


def option_of(model: type[BaseModel], name: str) -> OptionInfo:
    """Return the option of one field, for a parameter of a command with another type or default."""
    ((_, about, option),) = options_of(model, [name])
    made = _info(name, about, option, about.default)
    assert isinstance(made, OptionInfo)
    return made


def check_needed(model: type[BaseModel], chosen: Mapping[str, Any]) -> None:
    """Raise typer.BadParameter if a required setting of a new run was not typed."""
    needed = {name: option for name, about, option in options_of(model) if about.is_required()}
    if needed.keys() - chosen.keys():
        *others, last = [
            option.names[0] if option.names else f"--{name.replace('_', '-')}" for name, option in needed.items()
        ]
        raise typer.BadParameter(f"{', '.join(others)} and {last} are needed, or --resume ID")


def given(context: typer.Context) -> dict[str, Any]:
    """Return the arguments and options that were typed, by name."""
    source = {name: context.get_parameter_source(name) for name in context.params}
    typed = {name for name, where in source.items() if where is not None and where.name == TYPED}
    return {name: value for name, value in context.params.items() if name in typed}


def refuse(context: typer.Context, names: Collection[str], why: str) -> None:
    """Raise typer.BadParameter (exit 2), naming the options of `names`, unless `names` is empty."""
    called = [
        parameter.opts[0] if parameter.param_type_name == "option" else str(parameter.metavar)
        for parameter in context.command.params
        if parameter.name in names
    ]
    if called:
        raise typer.BadParameter(f"{', '.join(called)}: {why}", context)


def options_of(model: type[BaseModel], names: Collection[str] | None = None) -> Iterator[tuple[str, FieldInfo, Option]]:
    """Yield the fields of a model that can be typed: arguments first, OUT last of these.

    names: by default all fields of a run; for a system's settings, its own and OUT.
    """
    is_system = issubclass(model, RunSettings) and model is not RunSettings
    own = model.model_fields.keys() - (RunSettings.model_fields.keys() - {"out"} if is_system else ())
    found = [
        (name, about, option)
        for name, about in model.model_fields.items()
        for option in about.metadata
        if isinstance(option, Option) and (name in own and not option.of_truth if names is None else name in names)
    ]
    yield from sorted(found, key=lambda each: (not isinstance(each[2], Argument), each[0] == "out"))


def typed_settings(model: type[BaseModel], values: dict[str, Any], names: Collection[str] | None = None) -> Values:
    """Take the typed settings out of the values of a command's options."""
    chosen = {}
    for name, _, option in options_of(model, names):
        value = values.pop(name)
        if option.read and value is not None:
            try:
                value = option.read(value)
            except ValueError as error:
                raise typer.BadParameter(str(error)) from None
        if value is not None:
            chosen[name] = _plain(value)
    return chosen


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_plain, value))
    if isinstance(value, Path):
        return str(value)
    return value.value if isinstance(value, Enum) else value


def _group(kind: Any) -> _Group | None:
    if get_origin(kind) is Annotated and (asked := [each for each in get_args(kind) if isinstance(each, Settings)]):
        (settings,) = asked
        made = [_parameter(*each, settings) for each in options_of(settings.model, settings.names)]
        return _Group(made, lambda values: typed_settings(settings.model, values, settings.names))
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        made = [_parameter(*each, Settings(kind)) for each in options_of(kind)]
        return _Group(made, lambda values: validated(kind, typed_settings(kind, values)))
    return _dataclass_group(kind) if is_dataclass(kind) else None


def _dataclass_group(kind: Any) -> _Group:
    """Return the options of a dataclass: its fields, and those of the groups among them."""
    parameters, below = _options_and_groups(kind)

    def build(values: dict[str, Any]) -> Any:
        groups = {name: group.build(values) for name, group in below.items()}
        return kind(**{each.name: values.pop(each.name) for each in fields(kind) if each.name not in groups}, **groups)

    return _Group(parameters, build)


def _options_and_groups(called: Callable[..., Any]) -> tuple[list[inspect.Parameter], dict[str, _Group]]:
    """Return the options of all parameters of a command or a dataclass, in order, and the groups among these."""
    hints = get_type_hints(called, include_extras=True)
    options: list[inspect.Parameter] = []
    groups: dict[str, _Group] = {}
    for parameter in inspect.signature(called).parameters.values():
        kind = hints[parameter.name]
        if group := _group(kind):
            groups[parameter.name] = group
            options += group.parameters
        else:
            options.append(parameter.replace(annotation=kind, kind=KEYWORD_ONLY))
    return options, groups


def _parameter(name: str, about: FieldInfo, option: Option, settings: Settings) -> inspect.Parameter:
    """Return a field as a parameter of a command."""
    kind, words = option.typed or _typed(about.annotation), settings.default
    default: Any
    if about.is_required():
        default = inspect.Parameter.empty if settings.needed else None
    elif words or option.typed or get_origin(kind) is list:
        default = False if kind is bool else None
    else:
        default = settings.instead.get(name, about.get_default(call_default_factory=True))
    info = _info(name, about, option, default)
    if words and not about.is_required():
        info.show_default = words
    annotation: Any = Annotated[kind | None if default is None else kind, info]
    return inspect.Parameter(name, KEYWORD_ONLY, default=default, annotation=annotation)


def _typed(kind: Any) -> Any:
    """Return a field's type on the command line: without None; for a tuple, a list of its items' type."""
    kind = resolve_alias(kind)
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _typed(parts[0])
    if origin is tuple:
        (item, *_) = parts
        is_choice = get_origin(item) is Literal  # typer does not take lists of literals
        return list[StrEnum("Choice", get_args(item)) if is_choice else item]  # type: ignore[misc]
    if origin in (Union, UnionType):
        return next(_typed(each) for each in parts if each is not NoneType)
    return kind


def _info(name: str, about: FieldInfo, option: Option, default: Any) -> ArgumentInfo | OptionInfo:
    """Return typer's information on a field besides its type and default."""
    least = next((each.ge for each in about.metadata if isinstance(each, Ge)), None)
    shown = {"help": about.description, **({} if least is None else {"min": least}), **option.about}
    if isinstance(option, Argument):
        argument: ArgumentInfo = typer.Argument(metavar=option.names[0], **shown)
        return argument
    only = (f"--{name.replace('_', '-')}",) if default is False else ()  # no --no-NAME
    made: OptionInfo = typer.Option(*(option.names or only), **shown)
    return made
