"""Somebody else commits at any moment of an attempt: nothing of theirs is ever lost."""

from pathlib import Path

import pytest
from tests.people import discard_uncommitted
from tests.unit.app.attempt.attempt_harness import AttemptHarness, at_each_request
from tests.unit.app.attempt.attempt_scene import AttemptScene, assert_accepted, told

from perago.domain.attempt import WorkflowStatus
from perago.domain.commit_metadata import LOGICAL_TASK_KEY
from perago.domain.lakefs import CommitId
from perago.domain.policy import PolicySetting
from perago.ports.workspace import Phase
from perago.testing.faults import ANY_CALL, Meanwhile, Moment, Side, crash

FENCED = [PolicySetting.SETTLED, PolicySetting.HEAD_PARENT]


@pytest.mark.scale
@pytest.mark.parametrize("side", list(Side), ids=str)
@pytest.mark.parametrize("policy", FENCED, ids=str)
async def test_a_commit_beside_any_call_stays_in_the_history(
    tmp_path: Path, policy: PolicySetting, side: Side
) -> None:
    refused = 0
    # Without ownership an unowned child of the input may be replaced: the documents' rule.
    async for nth, harness in at_each_request(tmp_path, policy, require_ownership=True):
        humans: list[CommitId] = []

        def commit(harness: AttemptHarness = harness, humans: list[CommitId] = humans) -> None:
            humans.append(harness.human())

        await harness.attempt(harness.worker([Meanwhile(Moment(ANY_CALL, side, nth=nth), commit)]))
        await harness.finish(attempts_max=2)
        history = [record.commit for record in harness.repository.history()]
        assert humans[0] in history, f"lost beside call {nth}"
        publications = harness.publications()
        assert len(publications) <= 1
        if publications:
            assert publications[0].parents == (harness.input,)
        else:
            refused += 1
            assert (await harness.read()).status is not WorkflowStatus.COMPLETED
    assert refused > 0, "no commit came before the effect"


async def test_head_parent_never_replaces_a_publication_of_another_task(tmp_path: Path) -> None:
    scene = await AttemptScene(tmp_path, PolicySetting.HEAD_PARENT, fenced=False).started()
    other = scene.repository.commit(
        {"elsewhere/x": b"x"}, metadata={LOGICAL_TASK_KEY: "another/task/0"}
    )

    story = await scene.next_attempt()

    assert "belongs to another/task/0" in str(story.reason)
    assert scene.repository.head().commit == other


async def test_head_parent_replaces_its_own_abandoned_publication(tmp_path: Path) -> None:
    scene = await AttemptScene(tmp_path, PolicySetting.HEAD_PARENT, fenced=False).started()
    await scene.next_attempt(crash(after="branches.merge"))
    abandoned = scene.repository.head().commit

    await scene.finished()

    await assert_accepted(scene)
    assert scene.repository.head().parents == (scene.input,)
    kept = [commit for tag, commit in scene.repository.tags().items() if "relocated" in tag]
    assert kept == [abandoned]


async def test_head_parent_takes_an_unowned_child_for_abandoned_and_warns(tmp_path: Path) -> None:
    scene = await AttemptScene(tmp_path, PolicySetting.HEAD_PARENT, fenced=False).started()
    human = scene.human()

    story = await scene.next_attempt()

    assert any(facts.get("head") == human for facts in told(story, Phase.WARNED))
    assert human in scene.repository.tags().values()


async def test_a_dirty_target_is_never_relocated(tmp_path: Path) -> None:
    """The server would do it, and leave the objects of somebody else on the new head."""
    scene = await AttemptScene(tmp_path, PolicySetting.HEAD_PARENT, fenced=False).started()
    await scene.next_attempt(crash(after="branches.merge"))
    abandoned = scene.repository.head().commit
    scene.repository.write("elsewhere/forgotten.txt", b"uncommitted")

    story = await scene.next_attempt()

    assert "elsewhere/forgotten.txt" in str(story.reason)
    assert scene.repository.head().commit == abandoned
    discard_uncommitted(scene.repository)
    await scene.finished()
    await assert_accepted(scene)


async def test_a_dirty_target_is_named_with_the_command_that_resets_it(tmp_path: Path) -> None:
    scene = await AttemptScene(tmp_path, PolicySetting.SETTLED).started()
    scene.repository.write("elsewhere/forgotten.txt", b"uncommitted")

    story = await scene.next_attempt()

    assert "elsewhere/forgotten.txt" in str(story.reason)
    assert "lakectl branch reset lakefs://repo/main" in str(story.reason)
    assert any(tag.startswith("perago-settled-") for tag in scene.repository.tags())
    discard_uncommitted(scene.repository)
    await scene.finished()
    await assert_accepted(scene)
    assert scene.runs == 1
