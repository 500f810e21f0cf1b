"""Fences missing, altered or not run, policies that change between attempts, odd histories.

Each ends as the specification's sections 5, 7 and 8 say; nothing is ever a silent downgrade.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.people import cherry_pick, merge, reset_hard, revert
from tests.unit.app.attempt.attempt_scene import AttemptScene, assert_accepted

from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.domain.attempt import WorkflowStatus
from perago.domain.commit_metadata import LEVEL, LOGICAL_EXECUTION_KEY, POLICY
from perago.domain.fence import FENCE_FILE
from perago.domain.paths import FENCE_PATH
from perago.domain.policy import PolicySetting
from perago.testing.faults import crash, meanwhile

OTHER_FENCES: list[tuple[str, bytes]] = [
    ("neutered script", FENCE_FILE.replace(b"error(", b"print(")),
    ("branch filter", FENCE_FILE.replace(b"pre-merge:\n", b"pre-merge:\n    branches: [prod]\n")),
    ("other event", FENCE_FILE.replace(b"pre-merge:", b"pre-commit:")),
    ("empty", b""),
]


async def test_auto_is_settled_where_the_fence_works(tmp_path: Path) -> None:
    scene = await AttemptScene(tmp_path, PolicySetting.AUTO).started()
    await scene.next_attempt()
    assert scene.repository.head().metadata[POLICY] == "settled"


async def test_auto_is_head_parent_without_a_fence(tmp_path: Path) -> None:
    scene = await AttemptScene(tmp_path, PolicySetting.AUTO, fenced=False).started()
    await scene.next_attempt()
    assert scene.repository.head().metadata[POLICY] == "head-parent"


async def test_an_explicit_head_parent_is_fenced_where_the_fence_works(tmp_path: Path) -> None:
    scene = await AttemptScene(tmp_path, PolicySetting.HEAD_PARENT).started()
    await scene.next_attempt()
    assert scene.repository.head().metadata[LEVEL] == "head-parent+fence"


@pytest.mark.parametrize(
    "content", [row[1] for row in OTHER_FENCES], ids=[row[0] for row in OTHER_FENCES]
)
async def test_auto_never_downgrades_over_an_altered_fence(tmp_path: Path, content: bytes) -> None:
    scene = AttemptScene(tmp_path, PolicySetting.AUTO, fenced=False)
    scene.input = scene.repository.commit({FENCE_PATH: content}, unchecked=True)
    await scene.start()
    story = await scene.next_attempt()
    assert "PRG-F021" in str(story.reason)
    assert scene.runs == 0
    assert scene.repository.head().commit == scene.input


async def test_hooks_switched_off_are_found_by_the_canary(tmp_path: Path) -> None:
    scene = AttemptScene(tmp_path, PolicySetting.AUTO)
    scene.lakefs.actions_enabled = False
    await scene.start()
    story = await scene.next_attempt()
    assert "PRG-F022" in str(story.reason)
    assert scene.runs == 0


async def test_hooks_switched_off_after_the_canary_are_found_by_the_parents(
    tmp_path: Path,
) -> None:
    scene = await AttemptScene(tmp_path, PolicySetting.SETTLED).started()

    def switch_off_and_commit() -> None:
        scene.lakefs.actions_enabled = False
        scene.human()

    fault = meanwhile(switch_off_and_commit, before="merge")
    story = await scene.next_attempt(fault)

    assert "fence did not run" in str(story.reason)
    assert "PRG-F023" in str(story.reason)
    assert len(scene.publications()) == 1, "the publication stands"


async def test_a_fence_removed_between_two_publications_ends_settled(tmp_path: Path) -> None:
    scene = AttemptScene(tmp_path, PolicySetting.AUTO)
    scene.input = scene.repository.commit({FENCE_PATH: None})
    scene.fenced = False
    await scene.start()
    await scene.next_attempt()
    assert scene.repository.head().metadata[POLICY] == "head-parent"


@pytest.mark.parametrize("later", [PolicySetting.HEAD_PARENT, PolicySetting.LINEAGE], ids=str)
async def test_a_decision_wins_whatever_the_policy_of_the_retry(
    tmp_path: Path, later: PolicySetting
) -> None:
    scene = await AttemptScene(tmp_path, PolicySetting.SETTLED).started()
    await scene.next_attempt(crash(after="tags.create"))
    scene.env.use_policy(later)
    await scene.finished()
    await assert_accepted(scene)
    assert scene.runs == 1
    assert LOGICAL_EXECUTION_KEY in scene.repository.head().metadata


async def test_settled_refuses_what_another_policy_published(tmp_path: Path) -> None:
    scene = await AttemptScene(tmp_path, PolicySetting.HEAD_PARENT).started()
    await scene.next_attempt(crash(after="merge"))
    published = scene.repository.head().commit
    scene.env.use_policy(PolicySetting.SETTLED)
    workflow = await scene.finished()
    assert workflow.status is not WorkflowStatus.COMPLETED
    assert "published by policy head-parent" in str(
        [row.reason for row in workflow.attempts if row.reason]
    )
    assert scene.repository.head().commit == published


async def test_a_staged_commit_merged_and_reverted_by_a_human_is_never_success(
    tmp_path: Path,
) -> None:
    scene = await AttemptScene(tmp_path, PolicySetting.SETTLED).started()
    await scene.next_attempt(crash(before="merge"))
    decided = next(commit for tag, commit in scene.repository.tags().items() if "settled" in tag)
    revert(scene.repository, merge(scene.repository, decided), parent=1)

    workflow = await scene.finished()

    assert workflow.status is not WorkflowStatus.COMPLETED
    assert scene.publications() == []


async def test_a_cherry_picked_publication_is_not_adopted(tmp_path: Path) -> None:
    """It carries our key and our branch, but does not stand on the head it names."""
    scene = await AttemptScene(tmp_path, PolicySetting.SETTLED).started()
    await scene.next_attempt(crash(after="merge"))
    published = scene.repository.head().commit
    reset_hard(scene.repository, scene.input)
    scene.human()
    cherry_pick(scene.repository, published)

    workflow = await scene.finished()

    assert workflow.status is not WorkflowStatus.COMPLETED
    assert scene.runs == 1


@pytest.mark.parametrize("policy", [PolicySetting.SETTLED, PolicySetting.LINEAGE], ids=str)
async def test_a_protected_target_is_published_and_retried(
    tmp_path: Path, policy: PolicySetting
) -> None:
    scene = AttemptScene(tmp_path, policy)
    scene.repository.protect()
    await scene.start()
    await scene.next_attempt(crash(after="merge"))
    await scene.finished()
    await assert_accepted(scene, publications_max=2)


async def test_head_parent_names_the_protection_that_stops_its_replacement(
    tmp_path: Path,
) -> None:
    scene = AttemptScene(tmp_path, PolicySetting.HEAD_PARENT)
    scene.repository.protect()
    await scene.start()
    await scene.next_attempt(crash(after="merge"))
    workflow = await scene.finished()
    reasons = str([row.reason for row in workflow.attempts if row.reason])
    assert "main is protected" in reasons
    assert "perago fence install" in reasons


async def test_a_body_that_deletes_everything_leaves_the_fence(tmp_path: Path) -> None:
    def delete_all(workspace: Path, run: int) -> None:
        del run
        for path in workspace.iterdir():
            if path.name != ".perago-attempt.json":
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    scene = AttemptScene(
        tmp_path, PolicySetting.SETTLED, spec=WorkspaceSpec(prefix="/"), body=delete_all
    )
    await scene.start()
    story = await scene.next_attempt()
    assert story.accepted, story.reason
    assert set(scene.repository.files()) == {FENCE_PATH}


def _write_reserved(workspace: Path, run: int) -> None:
    del run
    (workspace / "_lakefs_actions").mkdir()
    (workspace / "_lakefs_actions" / "mine.yaml").write_text("mine")


def _write_symlink(workspace: Path, run: int) -> None:
    del run
    (workspace / "link").symlink_to("kept.txt")


REFUSED_BODIES: list[tuple[str, str, Callable[[Path, int], None], str]] = [
    ("reserved path", "/", _write_reserved, "_lakefs_actions/mine.yaml"),
    (
        "symlink",
        "data",
        _write_symlink,
        "workspace publication does not support symlinks: link",
    ),
]


@pytest.mark.parametrize(
    ("prefix", "body", "reason"),
    [row[1:] for row in REFUSED_BODIES],
    ids=[row[0] for row in REFUSED_BODIES],
)
async def test_a_body_that_writes_what_it_must_not_publishes_nothing(
    tmp_path: Path, prefix: str, body: Callable[[Path, int], None], reason: str
) -> None:
    scene = AttemptScene(
        tmp_path, PolicySetting.SETTLED, spec=WorkspaceSpec(prefix=prefix), body=body
    )
    await scene.start()
    story = await scene.next_attempt()
    assert reason in str(story.reason)
    assert scene.repository.head().commit == scene.input
    assert scene.repository.branch_names() == {"main"}
    assert scene.repository.tags() == {}
