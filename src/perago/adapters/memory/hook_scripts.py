"""Runs the Lua text of a hook: in Lua 5.2 where lupa is installed, else only our own fence.

Knows neither lakeFS nor a commit: an action is plain data. The port of the fence to Python stands
in where lupa is absent; a unit test shows that both say the same.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeAlias, cast

from perago.domain.commit_metadata import EXPECTED_HEAD
from perago.domain.publication import FENCE_SCRIPT, HEAD_MOVED_TEXT

ActionData: TypeAlias = Mapping[str, object]

# A script sees the safe globals, as on the server, and keeps its own to itself.
_SANDBOX = """
for _, name in ipairs{"python", "io", "os", "package", "require", "dofile", "loadfile", "debug"} do
  _G[name] = nil
end
return function(code, action)
  local environment = setmetatable({action = action}, {__index = _G})
  local chunk, problem = load(code, "lua", "t", environment)
  if not chunk then return problem end
  local passed, failure = pcall(chunk)
  if not passed then return tostring(failure) end
end
"""
_RAISING_LINE = 1 + FENCE_SCRIPT[: FENCE_SCRIPT.index("error(")].count("\n")


class ScriptNeedsLuaError(Exception):
    """A hook other than our fence was met, and lupa is not installed."""

    def __init__(self) -> None:
        super().__init__(
            "the in-memory lakeFS met a Lua hook that is not Perago's own fence; "
            "expected lupa to run it, found none; install perago[testing]"
        )


def run_script(script: str, action: ActionData, *, with_lua: bool) -> str | None:
    """The error a script raised, or None when it passed."""
    if with_lua:
        return run_in_lua(script, action)
    if script == FENCE_SCRIPT:
        return run_fence_in_python(action)
    raise ScriptNeedsLuaError


@cache
def has_lua() -> bool:
    """Whether a Lua 5.2 is installed."""
    return find_spec("lupa") is not None


def run_in_lua(script: str, action: ActionData) -> str | None:
    """Run a script in Lua; `action` is its one global of ours."""
    run, to_table = _lua()
    failure = run(script, to_table(action))
    return None if failure is None else str(failure)


def run_fence_in_python(action: ActionData) -> str | None:
    """What the fence's script does, in Python."""
    commit: Any = action["commit"]
    expected = commit["metadata"].get(EXPECTED_HEAD)
    if expected is None:
        return None
    found = commit["parents"][0] if commit["parents"] else "nil"
    if expected == found:
        return None
    return f'[string "lua"]:{_RAISING_LINE}: {HEAD_MOVED_TEXT} {expected} {found}'


@cache
def _lua() -> tuple[Callable[[str, object], object], Callable[[object], object]]:
    lupa: Any = import_module("lupa.lua52")
    runtime: Any = lupa.LuaRuntime(register_eval=False, register_builtins=False)

    def to_table(value: object) -> object:
        if isinstance(value, Mapping):
            mapping = cast("Mapping[str, object]", value)
            return runtime.table_from({key: to_table(item) for key, item in mapping.items()})
        if isinstance(value, Sequence) and not isinstance(value, str):
            return runtime.table_from([to_table(item) for item in cast("Sequence[object]", value)])
        return value

    return runtime.execute(_SANDBOX), to_table
