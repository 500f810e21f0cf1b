"""No answer that is lost costs an attempt: the function runs once, and its one row completes.

test_patience.py does this at every call of a plain first attempt. Here are the calls that such an
attempt does not make, each by the name of its fault, and every call of a retry.
"""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.app.attempt.attempt_harness import AttemptHarness
from tests.unit.app.attempt.attempt_scene import AttemptScene, assert_accepted

from perago import WorkspaceSpec
from perago.domain.attempt import AttemptStatus
from perago.domain.policy import PolicySetting
from perago.testing.faults import ANY_CALL, Fault, crash, lose_answer, meanwhile

# It does not shrink, so it is split over two empty commits below the staged one.
LARGE_RESULT = random.Random(7).randbytes(120_000).hex()  # noqa: S311 - no secret
LEVELS = [
    (PolicySetting.HEAD_PARENT, False),
    (PolicySetting.HEAD_PARENT, True),
    (PolicySetting.LINEAGE, False),
    (PolicySetting.LINEAGE, True),
    (PolicySetting.SETTLED, True),
]


def _edit(workspace: Path, run: int) -> None:
    """An upload, a copy on the server and a deletion."""
    (workspace / "out.txt").write_text(f"run {run}")
    (workspace / "old.txt").rename(workspace / "moved.txt")


def _scene(root: Path, *, moved: bool = False) -> AttemptScene:
    """A task that meets every kind of call; with `moved` it publishes onto a head that moved."""
    spec = WorkspaceSpec(prefix="data", isolation="prefix" if moved else "branch")
    return AttemptScene(
        root, PolicySetting.SETTLED, spec=spec, body=_edit, result_text=LARGE_RESULT
    )


CALLS: dict[str, Callable[[], Fault]] = {
    "the staging branch is created": lambda: lose_answer("branch"),
    "an object is uploaded": lambda: lose_answer("objects.upload"),
    "an object is copied": lambda: lose_answer("objects.copy"),
    "objects are deleted": lambda: lose_answer("objects.delete_many"),
    "the first piece of the result is committed": lambda: lose_answer("stage"),
    "the second piece of the result is committed": lambda: lose_answer("stage", nth=2),
    "the staged commit is made": lambda: lose_answer("stage", nth=3),
    "the decision is made": lambda: lose_answer("decide"),
    "the branch is deleted": lambda: lose_answer("clean-up"),
}
CALLS_ON_A_MOVED_HEAD: dict[str, Callable[[], Fault]] = {
    "the scratch branch is created": lambda: lose_answer("branches.create", nth=2),
    "the prefix is merged onto the head": lambda: lose_answer("onto-head"),
    "the scratch branch is deleted": lambda: lose_answer("branches.delete", nth=2),
}


async def _assert_one_run(scene: AttemptScene) -> None:
    (row,) = (await scene.read()).attempts
    assert row.snapshot.status is AttemptStatus.COMPLETED, row.reason
    assert (scene.runs, len(scene.publications())) == (1, 1)
    files = {path: text for path, text in scene.repository.files().items() if "data/" in path}
    expected = {"data/kept.txt": b"kept", "data/moved.txt": b"old", "data/out.txt": b"run 1"}
    assert files == expected
    result = row.output_data["result"]
    assert result == {"run": 1, "text": LARGE_RESULT}


@pytest.mark.parametrize("call", CALLS)
async def test_a_lost_answer_of_a_call_on_the_private_branch_costs_nothing(
    tmp_path: Path, call: str
) -> None:
    scene = await _scene(tmp_path).started()
    await scene.next_attempt(CALLS[call]())
    await _assert_one_run(scene)


@pytest.mark.parametrize("call", CALLS_ON_A_MOVED_HEAD)
async def test_a_lost_answer_of_a_call_on_a_scratch_branch_costs_nothing(
    tmp_path: Path, call: str
) -> None:
    scene = await _scene(tmp_path, moved=True).started()
    move = meanwhile(scene.human, before="decide")
    await scene.next_attempt(move, CALLS_ON_A_MOVED_HEAD[call]())
    await _assert_one_run(scene)


async def test_all_of_them_lost_in_one_attempt_cost_nothing(tmp_path: Path) -> None:
    scene = await _scene(tmp_path, moved=True).started()
    move = meanwhile(scene.human, before="decide")
    faults = [make() for make in (*CALLS.values(), *CALLS_ON_A_MOVED_HEAD.values())]
    await scene.next_attempt(move, *faults)
    await _assert_one_run(scene)


@pytest.mark.scale
@pytest.mark.parametrize(("policy", "fenced"), LEVELS, ids=str)
async def test_a_lost_answer_of_any_call_of_a_retry_costs_nothing(
    tmp_path: Path,
    policy: PolicySetting,
    fenced: bool,  # noqa: FBT001 - a row of the table
) -> None:
    """Its predecessor published and died, so it replaces, appends or resumes."""

    async def second(name: str) -> AttemptHarness:
        harness = await AttemptHarness(tmp_path / name, policy, fenced).started()
        assert await harness.attempt(harness.worker([crash(after="publish")])) is None
        await harness.lose_lease()
        return harness

    healthy = await second("healthy")
    assert (await healthy.report()).error is None
    for nth in range(2, healthy.requests(1).total() + 1):
        harness = await second(str(nth))
        await harness.report(lose_answer(ANY_CALL, nth=nth))
        rows = [(row.snapshot.status, row.reason) for row in (await harness.read()).attempts]
        asked = (nth, harness.requests(1), rows)
        assert (len(rows), harness.runs) == (2, healthy.runs), asked
        await assert_accepted(harness, publications_max=2)
