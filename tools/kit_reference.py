"""The reference page of the testing kit, from its public names, signatures and docstrings."""

import inspect
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pkgutil import iter_modules
from typing import cast

import perago.testing
import perago.testing.contract as suites
from perago.testing import pytest_plugin
from perago.testing.faults import POINTS

FIXTURES = (
    "perago_env",
    "perago_servers",
    "perago_memory",
    "perago_lakefs",
    "perago_conductor",
    "perago_clock",
    "perago_spark",
)


def kit_page() -> str:
    """Return fixtures, names, moments and contract suites."""
    names = {name: getattr(perago.testing, name) for name in sorted(perago.testing.__all__)}
    classes = {name: each for name, each in names.items() if inspect.isclass(each)}
    functions = {name: each for name, each in names.items() if inspect.isfunction(each)}
    fixtures = "\n".join(f"| `{name}` | {_fixture(name)} |" for name in FIXTURES)
    moments = "\n".join(
        f"| `{name}` | {', '.join(f'`{each}`' for each in sorted(point.operations))} |"
        for name, point in POINTS.items()
    )
    return f"""# Testing kit

`from perago.testing import ...`; how it is used is in [testing.md](../testing.md).

## Fixtures

Of the pytest plugin, on request only. `--perago-backend=memory|real` says where `perago_env` runs.

| Fixture | What it is |
|---|---|
{fixtures}

## Faults and definitions

{"".join(_function(name, each) for name, each in functions.items())}
## Moments

| Moment | Calls of ports |
|---|---|
{moments}

## Classes

{"".join(_class(name, each) for name, each in classes.items())}
## Contract suites

In `perago.testing.contract`; see [write an adapter](../how-to/write-an-adapter.md).

| Module | What it is |
|---|---|
{"".join(_suite_rows())}"""


def _function(name: str, function: Callable[..., object]) -> str:
    return f"### {name}\n\n```text\n{name}{signature_of(function)}\n```\n\n{_text(function)}\n\n"


def _class(name: str, kind: type[object]) -> str:
    parts = [f"### {name}\n\n{_text(kind)}\n\n"]
    parts.append(f"```text\n{name}{signature_of(kind)}\n```\n\n")
    members = list(_members(kind))
    if members:
        rows = "\n".join(
            f"| `{text.replace('|', chr(92) + '|')}` | {said} |" for text, said in members
        )
        parts.append(f"| Member | What it is |\n|---|---|\n{rows}\n\n")
    return "".join(parts)


def _members(kind: type[object]) -> Iterator[tuple[str, str]]:
    """Public methods and properties, in the order of the source."""
    for name, member in vars(kind).items():
        if name.startswith("_"):
            continue
        if isinstance(member, property):
            yield name, _text(member)
        elif inspect.isfunction(member):
            waits = "await " if inspect.iscoroutinefunction(member) else ""
            yield f"{waits}{name}{signature_of(member)}", _text(member)


def signature_of(function: Callable[..., object]) -> str:
    """A signature without module paths, without self and without defaults nobody can write."""
    try:
        found = inspect.signature(function)
    except ValueError:
        return "()"
    kept = [each for name, each in found.parameters.items() if name != "self"]
    text = str(found.replace(parameters=kept))
    text = re.sub(r"(\b[a-z_]+\.)+(?=[A-Za-z])", "", text)
    return re.sub(r"= <[^>]*>", "= ...", text).removesuffix(" -> None")


def _fixture(name: str) -> str:
    function = cast("Callable[..., object]", getattr(pytest_plugin, name))
    return _text(getattr(function, "__wrapped__", function))


def _suite_rows() -> Iterator[str]:
    for found in iter_modules(suites.__path__):
        module = import_module(f"{suites.__name__}.{found.name}")
        yield f"| `{found.name}` | {(inspect.getdoc(module) or '').splitlines()[0]} |\n"


def _text(thing: object) -> str:
    """The first paragraph of a docstring on one line."""
    return " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())
