"""Decisions of earlier attempts: finished without the body, checked, their branches kept."""

import random
import string
from pathlib import Path

import pytest
from pydantic import BaseModel
from tests.unit.app.attempt.attempt_harness import (
    TASK,
    AttemptHarness,
    Params,
    assert_accepted,
    reason_of,
)

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


def _released(harness: AttemptHarness, model: type[BaseModel]) -> TaskDefinition:
    """The task as another release declares it."""

    def edit(workspace: Path, params: Params) -> BaseModel:
        raise AssertionError((workspace, params))

    edit.__annotations__["return"] = model
    declared = task(name=TASK, owner_email="data@example.com", workspace=harness.spec)(edit)
    definition: TaskDefinition = vars(declared)["__perago_task__"]
    return definition


async def _started(tmp_path: Path) -> AttemptHarness:
    return await AttemptHarness(tmp_path, PolicySetting.SETTLED).started()


def _staging_branches(harness: AttemptHarness) -> set[str]:
    return {name for name in harness.repository.branch_names() if name != "main"}


@pytest.mark.parametrize("model", [RenamedResult, SmallerResult], ids=lambda model: model.__name__)
async def test_a_stored_result_that_a_deploy_outdated_fails_before_it_is_published(
    tmp_path: Path, model: type[BaseModel]
) -> None:
    harness = await _started(tmp_path)
    await harness.attempt(harness.worker([crash(after=CREATE_TAG)]))
    await harness.lose_lease()
    before, harness.task = harness.task, _released(harness, model)

    report = await harness.report()

    assert report.status == AttemptStatus.FAILED
    assert "PRG-R003" in reason_of(report)
    assert f"perago reset-task {harness.workflow} edit" in reason_of(report)
    assert harness.repository.head().commit == harness.input
    assert len(_staging_branches(harness)) == 1, "the decision keeps its branch"
    harness.task = before
    await harness.finish()
    await assert_accepted(harness)
    assert harness.runs == 1


async def test_a_result_of_many_pieces_comes_back_whole(tmp_path: Path) -> None:
    harness = await _started(tmp_path)
    chance = random.Random(1)  # noqa: S311 - a text that does not compress, not a secret
    harness.result_text = "".join(chance.choices(string.printable, k=400_000))
    await harness.attempt(harness.worker([crash(after=CREATE_TAG)]))
    (decided,) = harness.repository.tags().values()
    staged = harness.lakefs.repository(harness.repository.id).commit_of(decided)
    assert RESULT_PARTS in staged.record.metadata

    workflow = await harness.finish()

    await assert_accepted(harness)
    assert harness.runs == 1
    result = workflow.attempts[-1].output_data["result"]
    assert isinstance(result, dict)
    assert result["text"] == harness.result_text


async def test_a_discarded_proposal_loses_its_branch_at_once(tmp_path: Path) -> None:
    """Two executions of one key decide: the later one finishes what the earlier one decided."""
    harness = await _started(tmp_path)
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
    harness = await _started(tmp_path)
    await harness.attempt(harness.worker([crash(after="merge")]))
    published = harness.repository.head().commit
    (tag,) = harness.repository.tags()
    harness.repository.delete_tag(tag)

    workflow = await harness.finish()

    assert harness.runs == 2, "without the decision nobody knows that there is a result"
    output = workflow.attempts[-1].output_data
    assert output == {
        "workspace": harness.workspace(ref=published),
        "result": {"run": 1, "text": ""},
    }
    await assert_accepted(harness)


async def test_a_decision_of_another_input_under_our_name_is_refused(tmp_path: Path) -> None:
    harness = await _started(tmp_path)
    await harness.attempt(harness.worker([crash(after=CREATE_TAG)]))
    (tag,) = harness.repository.tags()
    harness.repository.delete_tag(tag)
    harness.repository.tag(tag, harness.input)
    await harness.lose_lease()
    report = await harness.report()
    assert "PRG-F006" in reason_of(report)
    assert harness.repository.head().commit == harness.input


async def test_an_adoption_asks_for_no_attempt_fence(tmp_path: Path) -> None:
    """It writes nothing, and Conductor ignores the completion of a stale attempt."""
    harness = await _started(tmp_path)
    await harness.attempt(harness.worker([crash(after="merge")]))
    await harness.lose_lease()
    report = await harness.report()
    assert report.error is None
    # The one look is for the chain of retries that the key is made of.
    assert harness.workers[-1].calls["queue.read_workflow"] == 1


async def test_a_refused_decision_cleans_its_proposal(tmp_path: Path) -> None:
    harness = await _started(tmp_path)
    report = await harness.report(refuse(CREATE_TAG, AccessDeniedError("no tags")))
    assert "no tags" in str(report.error)
    assert _staging_branches(harness) == set()


async def test_a_decision_that_never_left_is_sent_again(tmp_path: Path) -> None:
    harness = await _started(tmp_path)
    report = await harness.report(refuse(CREATE_TAG, UnavailableError("down")))
    assert report.error is None
    await assert_accepted(harness)


async def test_an_attempt_that_fails_after_the_decision_keeps_its_branch(tmp_path: Path) -> None:
    harness = await _started(tmp_path)
    conflict = meanwhile(lambda: harness.human("data/conflict.txt"), before="decide")
    report = await harness.report(conflict)
    assert "another writer published" in str(report.error)
    assert len(_staging_branches(harness)) == 1
