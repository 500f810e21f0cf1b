"""Actions of the in-memory lakeFS: which files it accepts, and how it runs their hooks.

`run_hooks` runs what an event matches. `load_actions` parses the files under `_lakefs_actions/`;
one that cannot be used makes all of them unusable, as on the server. Lua scripts need lupa, except
for our own fence, which has a Python twin.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeAlias, TypeGuard, cast

import yaml

from perago.adapters.memory.object_tree import Tree
from perago.domain.commit_metadata import EXPECTED_HEAD
from perago.domain.fence import FENCE_SCRIPT, FENCE_SCRIPT_1, HEAD_MOVED_TEXT, PRIVATE_BRANCH_TEXT
from perago.domain.lakefs import NO_METADATA, CommitId, RepositoryId
from perago.domain.names import (
    DECISION_TAG_PREFIX,
    RUN_BRANCH_PREFIX,
    SCRATCH_BRANCH_PREFIX,
    STAGING_BRANCH_PREFIX,
)
from perago.domain.paths import ACTIONS_PREFIX
from perago.ports.errors import BrokenActionsError, RequestRefusedError

# The server's own patterns, so that a file is refused here if and only if it is refused there.
_NAME = re.compile(r"\w[\w\-. ]+", re.ASCII)
_HOOK_ID = re.compile(r"[_a-zA-Z][\-_a-zA-Z0-9]{1,255}")
_EVENTS = frozenset(
    {"prepare-commit"}
    | {
        f"{side}-{event}"
        for side in ("pre", "post")
        for event in (
            *("commit", "merge", "revert", "cherry-pick"),
            *("create-branch", "delete-branch", "create-tag", "delete-tag"),
        )
    }
)
_REQUIRED_PROPERTIES = {
    "lua": (("script", "script_path"),),
    "webhook": (("url",),),
    "airflow": (("url",), ("dag_id",), ("username",), ("password",)),
}
_PRIVATE_SOURCES = (
    STAGING_BRANCH_PREFIX,
    RUN_BRANCH_PREFIX,
    SCRATCH_BRANCH_PREFIX,
    DECISION_TAG_PREFIX,
)
ActionData: TypeAlias = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Hook:
    """One hook of an action."""

    id: str
    kind: str
    condition: str
    properties: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Action:
    """One action file: its hooks, and for each event the branch patterns (none: every branch)."""

    name: str
    branches_by_event: Mapping[str, tuple[str, ...]]
    hooks: tuple[Hook, ...]

    def matches(self, event: str, branch: str) -> bool:
        """Whether this action runs for this event on this branch."""
        patterns = self.branches_by_event.get(event)
        if patterns is None:
            return False
        return not patterns or any(fnmatchcase(branch, pattern) for pattern in patterns)


@dataclass(frozen=True, slots=True)
class HookEvent:
    """What is about to happen."""

    name: str
    repository: RepositoryId
    branch: str = ""
    tag: str = ""
    source_ref: str = ""
    merge_source: str = ""
    commit: CommitId | str = ""
    message: str = ""
    metarange: str = ""
    metadata: Mapping[str, str] = field(default_factory=lambda: NO_METADATA)
    parents: tuple[CommitId, ...] = ()


def run_hooks(event: HookEvent, tree: Tree, *, run_id: int) -> None:
    """Run every hook of the tree that the event matches, or raise.

    BrokenActionsError where the action files cannot be loaded (the server answers 500 or 404),
    RequestRefusedError where a hook raised (412).
    """
    aborted = f"{event.name} hook aborted, run id '{run_id:020d}'"
    try:
        actions = [
            action for action in load_actions(tree) if action.matches(event.name, event.branch)
        ]
    except ActionFileError as problem:
        text = f"{aborted}: 1 error occurred:\n\t* {problem}\n\n"
        raise BrokenActionsError(text) from problem
    failures = [
        failure
        for number, action in enumerate(actions)
        if (failure := _run_action(number, action, event, tree, run_id)) is not None
    ]
    if failures:
        listed = "".join(f"\t* {failure}\n" for failure in failures)
        raise RequestRefusedError(f"{aborted}: {len(failures)} error occurred:\n{listed}\n")


def _run_action(
    number: int, action: Action, event: HookEvent, tree: Tree, run_id: int
) -> str | None:
    first_failure: str | None = None
    for position, hook in enumerate(action.hooks):
        if not _is_wanted(hook.condition, failed=first_failure is not None):
            continue
        failure = _run_hook(hook, action.name, event, tree, run_id)
        if failure is not None and first_failure is None:
            first_failure = (
                f"hook run id '{number:04d}_{position:04d}' failed on action '{action.name}' "
                f"hook '{hook.id}': {failure}"
            )
    return first_failure


def _is_wanted(condition: str, *, failed: bool) -> bool:
    return {"": not failed, "success()": not failed, "failure()": failed, "true": True}.get(
        condition, False
    )


def _run_hook(
    hook: Hook, action_name: str, event: HookEvent, tree: Tree, run_id: int
) -> str | None:
    if hook.kind != "lua":
        return f"the in-memory lakeFS does not call {hook.kind} hooks"
    script = hook.properties.get("script")
    if not script:
        stored = tree.get(str(hook.properties["script_path"]))
        if stored is None:
            return f"could not load script_path {hook.properties['script_path']}: HTTP 404"
        script = stored.content.decode()
    seen = _seen_by_script(hook, action_name, event, run_id)
    failure = run_script(str(script), seen, with_lua=has_lua())
    return None if failure is None else f"runtime error: {failure}"


def _seen_by_script(
    hook: Hook, action_name: str, event: HookEvent, run_id: int
) -> dict[str, object]:
    return {
        "action_name": action_name,
        "hook_id": hook.id,
        "run_id": f"{run_id:020d}",
        "event_type": event.name,
        "commit_id": event.commit,
        "branch_id": event.branch,
        "source_ref": event.source_ref,
        "tag_id": event.tag,
        "merge_source": event.merge_source,
        "repository_id": event.repository,
        "commit": {
            "message": event.message,
            "meta_range_id": event.metarange,
            "metadata": dict(event.metadata),
            "parents": list(event.parents),
        },
    }


class ActionFileError(Exception):
    """A file under `_lakefs_actions/` cannot be used; the message names it."""


class _UnusableError(Exception):
    """What is wrong with one file."""


def load_actions(tree: Tree) -> list[Action]:
    """Every action of a tree, in order of path, or ActionFileError."""
    actions: list[Action] = []
    for path, stored in tree.under(ACTIONS_PREFIX):
        folder, slash, _ = path.removeprefix(ACTIONS_PREFIX).partition("/")
        if slash:
            # The server lists names up to the next slash and then finds no such object.
            raise ActionFileError(f"loading file {ACTIONS_PREFIX}{folder}/: not found")
        try:
            actions.append(_parse(stored.content))
        except (_UnusableError, ValueError, yaml.YAMLError) as problem:
            raise ActionFileError(f"parsing file {path}: {problem}") from problem
    names = [action.name for action in actions]
    for name in names:
        if names.count(name) > 1:
            raise ActionFileError(f"action name '{name}' already loaded: invalid action")
    return actions


# Every merge and commit loads its files anew, and the files hardly ever change.
@lru_cache(maxsize=256)
def _parse(content: bytes) -> Action:
    # Every scalar stays a string: plain YAML 1.1 would read the key `on` as true.
    document: object = yaml.load(content, Loader=yaml.BaseLoader)  # noqa: S506
    if not _is_mapping(document):
        raise _UnusableError("cannot unmarshal into an action")
    name = document.get("name", "")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise _UnusableError("'name' is required or invalid: invalid action")
    events = document.get("on")
    if not _is_mapping(events) or not events:
        raise _UnusableError("'on' is required: invalid action")
    hooks = document.get("hooks") or []
    if not isinstance(hooks, list):
        raise _UnusableError("cannot unmarshal hooks")
    return Action(
        name=name,
        branches_by_event={event: _branches(event, value) for event, value in events.items()},
        hooks=tuple(_hooks(hooks)),
    )


def _branches(event: str, value: object) -> tuple[str, ...]:
    if event not in _EVENTS:
        raise _UnusableError(f"event '{event}' is not supported: invalid action")
    if value in ("", "null", "~"):
        return ()
    if not _is_mapping(value):
        raise _UnusableError(f"cannot unmarshal the parameters of {event}")
    patterns = value.get("branches") or []
    if not isinstance(patterns, list):
        raise _UnusableError("cannot unmarshal branches")
    if patterns and event.endswith("-tag"):
        raise _UnusableError("'branches' is not supported in tag event types")
    return tuple(str(pattern) for pattern in patterns)


def _hooks(documents: Iterable[object]) -> Iterable[Hook]:
    seen: set[str] = set()
    for number, document in enumerate(documents):
        if not _is_mapping(document):
            raise _UnusableError(f"hook[{number}] cannot be unmarshalled")
        hook = Hook(
            id=str(document.get("id", "")),
            kind=str(document.get("type", "")),
            condition=str(document.get("if", "")),
            properties=properties if _is_mapping(properties := document.get("properties")) else {},
        )
        if not _HOOK_ID.fullmatch(hook.id):
            raise _UnusableError(f"hook[{number}] missing ID: invalid action")
        if hook.id in seen:
            raise _UnusableError(f"hook[{number}] duplicate ID '{hook.id}': invalid action")
        seen.add(hook.id)
        if hook.kind not in _REQUIRED_PROPERTIES:
            raise _UnusableError(f"hook[{number}] type '{hook.id}' unknown: invalid action")
        for choice in _REQUIRED_PROPERTIES[hook.kind]:
            if not any(key in hook.properties for key in choice):
                names = "' or '".join(choice)
                raise _UnusableError(f"hook[{number}]: '{names}' must be supplied in properties")
        yield hook


def _is_mapping(value: object) -> TypeGuard[Mapping[str, object]]:
    return isinstance(value, dict)


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
    if script in (FENCE_SCRIPT, FENCE_SCRIPT_1):
        return run_fence_in_python(script, action)
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


def run_fence_in_python(script: str, action: ActionData) -> str | None:
    """What one of the fence's scripts does, in Python."""
    commit: Any = action["commit"]
    expected = commit["metadata"].get(EXPECTED_HEAD)
    if expected is not None:
        found = commit["parents"][0] if commit["parents"] else "nil"
        moved = f"{HEAD_MOVED_TEXT} {expected} {found}"
        return None if expected == found else _raised(script, moved)
    source = str(action["merge_source"])
    if PRIVATE_BRANCH_TEXT in script and source.startswith(_PRIVATE_SOURCES):
        remedy = "publish through Perago, see perago explain PRG-F027"
        return _raised(script, f"{PRIVATE_BRANCH_TEXT} {source}: {remedy}")
    return None


def _raised(script: str, text: str) -> str:
    """A text of `error(` as Lua reports it, with its line."""
    line = 1 + script[: script.index(f'error("{text.split(maxsplit=1)[0]}')].count("\n")
    return f'[string "lua"]:{line}: {text}'


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
