"""Action files under `_lakefs_actions/`: what the server accepts as one, and what it makes of it.

Parses and matches; running hooks is `action_hooks.py`. One file that cannot be used makes all of
them unusable, as on the server.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TypeGuard

import yaml

from perago.adapters.memory.object_tree import Tree
from perago.domain.paths import ACTIONS_PREFIX

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


class ActionFileError(Exception):
    """A file under `_lakefs_actions/` cannot be used; the message names it."""


class _UnusableError(Exception):
    """What is wrong with one file."""


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
