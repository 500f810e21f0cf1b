"""A decision is believed on what its commit is: who may create tags may claim anything else."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.unit.app.attempt.attempt_harness import AttemptHarness
from tests.unit.app.attempt.attempt_scene import AttemptScene, assert_accepted

from perago.app.attempt.complete import delete_staging
from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.domain.commit_metadata import STAGING_BRANCH
from perago.domain.fence import FENCE_FILE
from perago.domain.lakefs import BranchName, CommitRecord
from perago.domain.paths import FENCE_PATH
from perago.domain.policy import PolicySetting
from perago.testing.faults import crash

CREATE_TAG = "tags.create"
OTHER_HOOK = b"""
name: mine
on: {post-merge: {}}
hooks: [{id: mine, type: lua, properties: {script: 'print("hello")'}}]
"""


@dataclass(frozen=True)
class Forgery:
    """What somebody committed in the place of the true decision."""

    name: str
    files: Mapping[str, bytes | None] = field(default_factory=dict[str, bytes | None])
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    on_root: bool = False
    prefix: str = "data"

    def __str__(self) -> str:
        return self.name


FORGERIES = [
    Forgery("before the prefix", {"a/x": b"x"}),
    Forgery("behind the prefix", {"elsewhere/x": b"x"}),
    Forgery("a sibling of the prefix", {"data-2/x": b"x"}),
    Forgery("reserved", {"_lakefs_actions/mine.yaml": OTHER_HOOK}),
    Forgery("reserved, whole repository", {"_lakefs_actions/a.yaml": OTHER_HOOK}, prefix="/"),
    Forgery("not on the input", {"data/x": b"x"}, on_root=True),
    Forgery("a foreign branch", {"data/x": b"x"}, {STAGING_BRANCH: "production"}),
    Forgery("a branch of another task", {"data/x": b"x"}, {STAGING_BRANCH: "perago-staging-x"}),
    Forgery("no branch", {"data/x": b"x"}, {STAGING_BRANCH: ""}),
]


def _write_one(directory: Path, run: int) -> None:
    (directory / "out.txt").write_text(f"run {run}")


async def _decided(root: Path, prefix: str) -> AttemptScene:
    """A scene whose first attempt died right after its decision; the next one waits."""
    scene = AttemptScene(root, PolicySetting.SETTLED, spec=WorkspaceSpec(prefix=prefix))
    if prefix == "/":
        scene.body = _write_one
    await scene.start()
    await scene.next_attempt(crash(after=CREATE_TAG))
    scene.repository.branch("production")
    return scene


def _forge(scene: AttemptScene, forgery: Forgery) -> None:
    """Put the decision's tag on another commit that claims to be the same."""
    repository = scene.repository
    (tag,) = repository.tags()
    true: CommitRecord = scene.lakefs.repository(repository.id).commit_of(tag).record
    base = repository.history()[-1].commit if forgery.on_root else scene.input
    repository.branch("forgery", base)
    metadata = {**true.metadata, **forgery.metadata}
    made = repository.commit(forgery.files, "forgery", metadata=metadata)
    repository.delete_tag(tag)
    repository.tag(tag, made)


@pytest.mark.parametrize("forgery", FORGERIES, ids=str)
async def test_a_decision_that_no_attempt_of_the_task_staged_is_refused(
    tmp_path: Path, forgery: Forgery
) -> None:
    scene = await _decided(tmp_path, forgery.prefix)
    _forge(scene, forgery)

    story = await scene.next_attempt()

    assert "PRG-F025" in str(story.reason)
    assert scene.repository.head().commit == scene.input
    assert "production" in scene.repository.branch_names()


async def test_the_command_in_a_refusal_can_be_typed(tmp_path: Path) -> None:
    scene = await AttemptScene(tmp_path, PolicySetting.SETTLED, reference="my task").started()
    await scene.next_attempt(crash(after=CREATE_TAG))
    _forge(scene, Forgery("outside", {"elsewhere/x": b"x"}))
    story = await scene.next_attempt()
    assert f"`perago reset-task {scene.workflow} 'my task'`" in str(story.reason)


async def test_a_decision_that_is_the_same_work_by_other_hands_is_finished(tmp_path: Path) -> None:
    """Content decides, not who committed it."""
    scene = await _decided(tmp_path, "data")
    files = {"data/out.txt": b"new 1", "data/only-1.txt": b"of this run", "data/old.txt": None}
    _forge(scene, Forgery("the same", files))
    await scene.finished()
    await assert_accepted(scene)
    assert scene.runs == 1


async def test_the_same_tree_on_another_history_is_refused(tmp_path: Path) -> None:
    """Nothing differs outside the prefix, but a merge has another base than was compared."""
    scene = await _decided(tmp_path, "data")
    files = {"elsewhere/other.txt": b"other", "data/kept.txt": b"kept", FENCE_PATH: FENCE_FILE}
    _forge(scene, Forgery("the same tree", files, on_root=True))

    story = await scene.next_attempt()

    assert "is not based on the input commit" in str(story.reason)
    assert scene.repository.head().commit == scene.input


async def test_a_clean_up_deletes_only_branches_with_names_of_ours(tmp_path: Path) -> None:
    scene = AttemptHarness(tmp_path, PolicySetting.SETTLED)
    names = [BranchName("production"), BranchName("perago-staging-x")]
    for name in names:
        scene.repository.branch(name)
    for name in names:
        await delete_staging(scene.worker().harness, scene.repository.id, name)
    assert scene.repository.branch_names() == {"main", "production"}


async def test_a_reset_leaves_a_branch_that_is_not_private(tmp_path: Path) -> None:
    scene = await _decided(tmp_path, "data")
    _forge(scene, Forgery("foreign", {"data/x": b"x"}, {STAGING_BRANCH: "production"}))
    scene.conductor.terminate(scene.workflow, "over")

    reset = await scene.reset_task()

    assert len(reset.decisions) == 1
    assert reset.branches == []
    assert "production" in scene.repository.branch_names()
