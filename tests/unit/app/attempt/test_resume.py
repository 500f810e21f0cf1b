"""Decisions of earlier attempts: finished without the body, checked, their branches kept."""

import random
import string
from pathlib import Path

import pytest
from pydantic import BaseModel
from tests.unit.app.attempt.attempt_harness import AttemptHarness
from tests.unit.app.attempt.attempt_scene import TASK, AttemptScene, Params, assert_accepted

from perago.app.authoring.task_declaration import task
from perago.app.authoring.task_definition import TaskDefinition
from perago.domain.attempt import AttemptStatus, WorkflowStatus
from perago.domain.commit_metadata import RESULT_PARTS
from perago.domain.policy import PolicySetting
from perago.ports.errors import AccessDeniedError, UnavailableError
from perago.testing.faults import crash, meanwhile, refuse, zombie

CREATE_TAG = "tags.create"


class RenamedResult(BaseModel):
    """What a later release reports."""

    number: int


class SmallerResult(BaseModel):
    """A release that reports less."""

    run: int


def _released(scene: AttemptScene, model: type[BaseModel]) -> TaskDefinition:
    """The task as another release declares it."""

    def edit(workspace: Path, params: Params) -> BaseModel:
        raise AssertionError((workspace, params))

    edit.__annotations__["return"] = model
    declared = task(name=TASK, owner_email="data@example.com", workspace=scene.spec)(edit)
    definition: TaskDefinition = vars(declared)["__perago_task__"]
    return definition


async def _started(tmp_path: Path) -> AttemptScene:
    return await AttemptScene(tmp_path, PolicySetting.SETTLED).started()


def _staging_branches(scene: AttemptScene) -> set[str]:
    return {name for name in scene.repository.branch_names() if name != "main"}


@pytest.mark.parametrize("model", [RenamedResult, SmallerResult], ids=lambda model: model.__name__)
async def test_a_stored_result_that_a_deploy_outdated_fails_before_it_is_published(
    tmp_path: Path, model: type[BaseModel]
) -> None:
    scene = await _started(tmp_path)
    await scene.next_attempt(crash(after=CREATE_TAG))
    before = scene.task
    await scene.env.register(_released(scene, model))

    story = await scene.next_attempt()

    assert story.status == AttemptStatus.FAILED
    assert "PRG-R003" in str(story.reason)
    assert f"perago reset-task {scene.workflow} edit" in str(story.reason)
    assert scene.repository.head().commit == scene.input
    assert len(_staging_branches(scene)) == 1, "the decision keeps its branch"
    await scene.env.register(before)
    await scene.finished()
    await assert_accepted(scene)
    assert scene.runs == 1


async def test_a_result_of_many_pieces_comes_back_whole(tmp_path: Path) -> None:
    scene = await _started(tmp_path)
    chance = random.Random(1)  # noqa: S311 - a text that does not compress, not a secret
    scene.result_text = "".join(chance.choices(string.printable, k=400_000))
    await scene.next_attempt(crash(after=CREATE_TAG))
    (decided,) = scene.repository.tags().values()
    staged = scene.lakefs.repository(scene.repository.id).commit_of(decided)
    assert RESULT_PARTS in staged.record.metadata

    workflow = await scene.finished()

    await assert_accepted(scene)
    assert scene.runs == 1
    result = workflow.attempts[-1].output_data["result"]
    assert isinstance(result, dict)
    assert result["text"] == scene.result_text


async def test_a_discarded_proposal_loses_its_branch_at_once(tmp_path: Path) -> None:
    """Two executions of one key decide: the later one finishes what the earlier one decided."""
    harness = await AttemptHarness(tmp_path, PolicySetting.SETTLED).started()
    sleeper = await harness.stand_still(harness.worker([zombie(before="decide")]))
    await harness.lose_lease()
    successor = await harness.stand_still(harness.worker([zombie(before="decide")]))
    harness.workers[0].release()
    await harness.drive(sleeper)
    assert len(_staging_branches(harness)) == 2, "the decision's and the proposal's"
    harness.workers[1].release()

    report = await harness.drive(successor)

    assert report.error is None
    assert _staging_branches(harness) == set(), "accepted: the decision's branch goes as well"
    workflow = await harness.read()
    assert workflow.status is WorkflowStatus.COMPLETED
    assert workflow.attempts[-1].output_data["result"] == {"run": 1, "text": ""}
    assert len(harness.publications()) == 1


async def test_a_publication_of_a_removed_decision_is_adopted_with_its_own_result(
    tmp_path: Path,
) -> None:
    scene = await _started(tmp_path)
    await scene.next_attempt(crash(after="merge"))
    published = scene.repository.head().commit
    (tag,) = scene.repository.tags()
    scene.repository.delete_tag(tag)

    workflow = await scene.finished()

    assert scene.runs == 2, "without the decision nobody knows that there is a result"
    output = workflow.attempts[-1].output_data
    assert output == {
        "workspace": scene.workspace(ref=published),
        "result": {"run": 1, "text": ""},
    }
    await assert_accepted(scene)


async def test_a_decision_of_another_input_under_our_name_is_refused(tmp_path: Path) -> None:
    scene = await _started(tmp_path)
    await scene.next_attempt(crash(after=CREATE_TAG))
    (tag,) = scene.repository.tags()
    scene.repository.delete_tag(tag)
    scene.repository.tag(tag, scene.input)
    story = await scene.next_attempt()
    assert "PRG-F006" in str(story.reason)
    assert scene.repository.head().commit == scene.input


async def test_an_adoption_asks_for_no_attempt_fence(tmp_path: Path) -> None:
    """It writes nothing, and Conductor ignores the completion of a stale attempt."""
    harness = await AttemptHarness(tmp_path, PolicySetting.SETTLED).started()
    await harness.attempt(harness.worker([crash(after="merge")]))
    await harness.lose_lease()
    report = await harness.report()
    assert report.error is None
    # The one look is for the chain of retries that the key is made of.
    assert harness.workers[-1].calls["queue.read_workflow"] == 1


async def test_a_refused_decision_cleans_its_proposal(tmp_path: Path) -> None:
    scene = await _started(tmp_path)
    story = await scene.next_attempt(refuse(CREATE_TAG, AccessDeniedError("no tags")))
    assert "no tags" in str(story.reason)
    assert _staging_branches(scene) == set()


async def test_a_decision_that_never_left_is_sent_again(tmp_path: Path) -> None:
    scene = await _started(tmp_path)
    story = await scene.next_attempt(refuse(CREATE_TAG, UnavailableError("down")))
    assert story.accepted, story.reason
    await assert_accepted(scene)


async def test_an_attempt_that_fails_after_the_decision_keeps_its_branch(tmp_path: Path) -> None:
    scene = await _started(tmp_path)
    conflict = meanwhile(lambda: scene.human("data/conflict.txt"), before="decide")
    story = await scene.next_attempt(conflict)
    assert "another writer published" in str(story.reason)
    assert len(_staging_branches(scene)) == 1
