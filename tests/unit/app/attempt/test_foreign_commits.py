"""Somebody else commits at any moment of an attempt: nothing of theirs is ever lost."""

from pathlib import Path

import pytest
from tests.people import discard_uncommitted
from tests.unit.app.attempt.attempt_harness import (
    AttemptHarness,
    assert_accepted,
    at_each_request,
    reason_of,
)

from perago.domain.attempt import WorkflowStatus
from perago.domain.commit_metadata import LOGICAL_TASK_KEY
from perago.domain.lakefs import CommitId
from perago.domain.policy import PolicySetting
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
    harness = await AttemptHarness(tmp_path, PolicySetting.HEAD_PARENT, fenced=False).started()
    other = harness.repository.commit(
        {"elsewhere/x": b"x"}, metadata={LOGICAL_TASK_KEY: "another/task/0"}
    )

    report = await harness.report()

    assert "belongs to another/task/0" in reason_of(report)
    assert harness.repository.head().commit == other


async def test_head_parent_replaces_its_own_abandoned_publication(tmp_path: Path) -> None:
    harness = await AttemptHarness(tmp_path, PolicySetting.HEAD_PARENT, fenced=False).started()
    await harness.attempt(harness.worker([crash(after="branches.merge")]))
    abandoned = harness.repository.head().commit

    await harness.finish()

    await assert_accepted(harness)
    assert harness.repository.head().parents == (harness.input,)
    kept = [commit for tag, commit in harness.repository.tags().items() if "relocated" in tag]
    assert kept == [abandoned]


async def test_head_parent_takes_an_unowned_child_for_abandoned_and_warns(tmp_path: Path) -> None:
    harness = await AttemptHarness(tmp_path, PolicySetting.HEAD_PARENT, fenced=False).started()
    human = harness.human()
    worker = harness.worker()

    await harness.attempt(worker)

    warnings = [facts for phase, facts in worker.progress.events if phase == "warned"]
    assert any(facts.get("head") == human for facts in warnings)
    assert human in harness.repository.tags().values()


async def test_a_dirty_target_is_never_relocated(tmp_path: Path) -> None:
    """The server would do it, and leave the objects of somebody else on the new head."""
    harness = await AttemptHarness(tmp_path, PolicySetting.HEAD_PARENT, fenced=False).started()
    await harness.attempt(harness.worker([crash(after="branches.merge")]))
    abandoned = harness.repository.head().commit
    harness.repository.write("elsewhere/forgotten.txt", b"uncommitted")

    workflow = await harness.finish(attempts_max=2)

    assert "elsewhere/forgotten.txt" in str([row.reason for row in workflow.attempts])
    assert harness.repository.head().commit == abandoned
    discard_uncommitted(harness.repository)
    await harness.finish()
    await assert_accepted(harness)


async def test_a_dirty_target_is_named_with_the_command_that_resets_it(tmp_path: Path) -> None:
    harness = await AttemptHarness(tmp_path, PolicySetting.SETTLED).started()
    harness.repository.write("elsewhere/forgotten.txt", b"uncommitted")

    report = await harness.report()

    assert "elsewhere/forgotten.txt" in reason_of(report)
    assert "lakectl branch reset lakefs://repo/main" in reason_of(report)
    assert any(tag.startswith("perago-settled-") for tag in harness.repository.tags())
    discard_uncommitted(harness.repository)
    await harness.finish()
    await assert_accepted(harness)
    assert harness.runs == 1
