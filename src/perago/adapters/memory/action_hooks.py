"""Hooks of the in-memory lakeFS: which actions an event runs, and what their refusal says.

Knows no branch and no graph: the caller brings the tree the action files are loaded from, which
for a merge is the source commit's, and what the hooks may see.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from perago.adapters.memory.action_files import Action, ActionFileError, Hook, load_actions
from perago.adapters.memory.hook_scripts import has_lua, run_script
from perago.adapters.memory.object_tree import Tree
from perago.domain.logical_execution import NO_METADATA, CommitId, RepositoryId


@dataclass(frozen=True, slots=True)
class HookEvent:
    """What is about to happen."""

    name: str
    repository: RepositoryId
    branch: str = ""
    tag: str = ""
    source_ref: str = ""
    commit: CommitId | str = ""
    message: str = ""
    metarange: str = ""
    metadata: Mapping[str, str] = field(default_factory=lambda: NO_METADATA)
    parents: tuple[CommitId, ...] = ()


@dataclass(frozen=True, slots=True)
class HookRefused:
    """A hook ran and raised: 412."""

    text: str


@dataclass(frozen=True, slots=True)
class HooksBroken:
    """The action files could not be loaded: 500 or 404."""

    text: str


HookRefusal: TypeAlias = HookRefused | HooksBroken


def run_hooks(event: HookEvent, tree: Tree, *, run_id: int) -> HookRefusal | None:
    """Run every hook of the tree that the event matches; None when nothing objects."""
    aborted = f"{event.name} hook aborted, run id '{run_id:020d}'"
    try:
        actions = [
            action for action in load_actions(tree) if action.matches(event.name, event.branch)
        ]
    except ActionFileError as problem:
        return HooksBroken(f"{aborted}: 1 error occurred:\n\t* {problem}\n\n")
    failures = [
        failure
        for number, action in enumerate(actions)
        if (failure := _run_action(number, action, event, tree, run_id)) is not None
    ]
    if not failures:
        return None
    listed = "".join(f"\t* {failure}\n" for failure in failures)
    return HookRefused(f"{aborted}: {len(failures)} error occurred:\n{listed}\n")


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
        return f"{hook.kind} hooks have nobody to call in memory"
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
        "repository_id": event.repository,
        "commit": {
            "message": event.message,
            "meta_range_id": event.metarange,
            "metadata": dict(event.metadata),
            "parents": list(event.parents),
        },
    }
