"""What no retry can cure ends the attempt for good under `settled`, and says what can be done."""

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.people import reset_hard
from tests.unit.app.attempt.attempt_harness import AttemptHarness
from tests.unit.app.attempt.test_codes_by_mistake import MISTAKES, told

from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.domain.attempt import AttemptStatus, WorkflowStatus
from perago.domain.error_codes import error_codes
from perago.domain.fence import FENCE_FILE
from perago.domain.outcome import BrokenActions, NoChanges, RefusedByHook
from perago.domain.paths import FENCE_PATH
from perago.domain.policy import PolicySetting
from perago.testing.faults import Fault, always, answer, crash, lose_request, meanwhile

SETTLED, LINEAGE = PolicySetting.SETTLED, PolicySetting.LINEAGE
AUTO, HEAD_PARENT = PolicySetting.AUTO, PolicySetting.HEAD_PARENT

Trouble = Callable[[AttemptHarness], Awaitable[Sequence[Fault]]]


async def another_writer_commits(harness: AttemptHarness) -> Sequence[Fault]:
    harness.human("data/theirs.txt")
    return ()


async def the_target_is_reset(harness: AttemptHarness) -> Sequence[Fault]:
    reset_hard(harness.repository, harness.repository.head().parents[0])
    harness.human()
    return ()


async def the_tag_names_another_commit(harness: AttemptHarness) -> Sequence[Fault]:
    await harness.attempt(harness.worker([crash(after="tags.create")]))
    (tag,) = harness.repository.tags()
    harness.repository.delete_tag(tag)
    harness.repository.tag(tag, harness.input)
    await harness.lose_lease()
    return ()


async def the_decision_lost_its_result(harness: AttemptHarness) -> Sequence[Fault]:
    await harness.attempt(harness.worker([crash(after="tags.create")]))
    (tag,) = harness.repository.tags()
    decided = harness.lakefs.repository(harness.repository.id).commit_of(tag).record
    metadata = {key: text for key, text in decided.metadata.items() if key != "perago.result"}
    harness.repository.branch("other", harness.input)
    files: dict[str, bytes | None] = {"data/out.txt": b"out"}
    damaged = harness.repository.commit(files, "other", metadata=metadata)
    harness.repository.delete_tag(tag)
    harness.repository.tag(tag, damaged)
    await harness.lose_lease()
    return ()


async def hooks_are_off(harness: AttemptHarness) -> Sequence[Fault]:
    harness.lakefs.actions_enabled = False
    return ()


async def the_fence_does_not_run(harness: AttemptHarness) -> Sequence[Fault]:
    def switch_off_and_commit() -> None:
        harness.lakefs.actions_enabled = False
        harness.human()

    return [meanwhile(switch_off_and_commit, before="merge")]


async def the_target_is_dirty(harness: AttemptHarness) -> Sequence[Fault]:
    harness.repository.write("elsewhere/draft.txt", b"draft")
    return ()


async def the_merge_gets_no_answer(_: AttemptHarness) -> Sequence[Fault]:
    return [always(lose_request("merge"))]


def answered(value: object) -> Trouble:
    async def trouble(_: AttemptHarness) -> Sequence[Fault]:
        return [answer("merge", value)]

    return trouble


@dataclass(frozen=True)
class Row:
    """A trouble, its code, and what the attempt ends as under each policy that can meet it."""

    code: str
    trouble: Trouble
    terminal: tuple[PolicySetting, ...] = ()
    failed: tuple[PolicySetting, ...] = ()


ROWS = [
    Row("PRG-F002", another_writer_commits, (SETTLED, AUTO), (LINEAGE,)),
    Row("PRG-F005", the_target_is_reset, (SETTLED, AUTO), (LINEAGE,)),
    Row("PRG-F006", the_tag_names_another_commit, (SETTLED,)),
    Row("PRG-I012", the_decision_lost_its_result, (SETTLED,)),
    Row("PRG-F010", answered(RefusedByHook("no")), (), (SETTLED, HEAD_PARENT, LINEAGE)),
    Row("PRG-F011", answered(BrokenActions("no")), (SETTLED,), (HEAD_PARENT, LINEAGE)),
    Row("PRG-F012", answered(NoChanges("no")), (SETTLED,), (HEAD_PARENT, LINEAGE)),
    Row("PRG-F013", the_target_is_dirty, (), (SETTLED, HEAD_PARENT, LINEAGE)),
    Row("PRG-F022", hooks_are_off, (), (SETTLED, AUTO)),
    Row("PRG-F023", the_fence_does_not_run, (SETTLED,), (HEAD_PARENT, LINEAGE)),
    Row("PRG-U001", the_merge_gets_no_answer, (), (SETTLED,)),
]
CASES = [
    pytest.param(row, policy, status, id=f"{row.code} {policy} {status}")
    for row in ROWS
    for status, policies in (
        (AttemptStatus.FAILED_WITH_TERMINAL_ERROR, row.terminal),
        (AttemptStatus.FAILED, row.failed),
    )
    for policy in policies
]


async def _assert_ends(
    harness: AttemptHarness, faults: Sequence[Fault], code: str, status: AttemptStatus
) -> str:
    reason = (await told(harness, faults)).reason
    assert code in reason
    assert harness.reports[-1].status == status, reason
    if status is AttemptStatus.FAILED_WITH_TERMINAL_ERROR:
        assert (await harness.read()).status is WorkflowStatus.FAILED
        assert re.search(r"`(perago|lakectl) [^`]+`", reason), reason
        assert not re.search(r"\b(REPO|BRANCH|WORKFLOW|REFERENCE)\b", reason), reason
    return reason


@pytest.mark.parametrize(("row", "policy", "status"), CASES)
async def test_a_refusal_ends_an_attempt_for_good_where_no_retry_can_cure_it(
    tmp_path: Path, row: Row, policy: PolicySetting, status: AttemptStatus
) -> None:
    harness = await AttemptHarness(tmp_path, policy).started()
    await _assert_ends(harness, await row.trouble(harness), row.code, status)


@pytest.mark.parametrize("policy", [SETTLED, AUTO], ids=str)
@pytest.mark.parametrize("isolation", ["branch", "prefix"])
async def test_an_input_whose_fence_is_not_ours_is_refused_for_good(
    tmp_path: Path, policy: PolicySetting, isolation: str
) -> None:
    spec = WorkspaceSpec.model_validate({"prefix": "data", "isolation": isolation})
    harness = AttemptHarness(tmp_path, policy, fenced=False, spec=spec)
    edited = FENCE_FILE.replace(b"error(", b"print(")
    harness.input = harness.repository.commit({FENCE_PATH: edited}, unchecked=True)
    await harness.start()
    await _assert_ends(harness, (), "PRG-F021", AttemptStatus.FAILED_WITH_TERMINAL_ERROR)


@pytest.mark.parametrize(
    ("policy", "isolation"), [(SETTLED, "branch"), (SETTLED, "prefix"), (AUTO, "prefix")]
)
async def test_an_input_without_the_fence_that_is_needed_is_refused_for_good(
    tmp_path: Path, policy: PolicySetting, isolation: str
) -> None:
    spec = WorkspaceSpec.model_validate({"prefix": "data", "isolation": isolation})
    harness = await AttemptHarness(tmp_path, policy, fenced=False, spec=spec).started()
    terminal = AttemptStatus.FAILED_WITH_TERMINAL_ERROR
    assert "perago fence install" in await _assert_ends(harness, (), "PRG-F020", terminal)
    assert harness.runs == 0


# What no attempt can be told: PRG-L001 is the family's own, L005 is told as F014, L006 cannot
# happen since an empty change stages nothing, L012 and L013 are of commands, F024 needs a server
# that merges wrongly.
UNTOLD = {"PRG-L001", "PRG-L005", "PRG-L006", "PRG-L012", "PRG-L013", "PRG-F024"}


def test_every_code_of_these_families_has_its_mistake() -> None:
    families = ("PRG-F", "PRG-L", "PRG-U")
    ours = {code for code in error_codes() if code.startswith(families)}
    here = {row.code for row in ROWS if row.code.startswith(families)} | {"PRG-F020", "PRG-F021"}
    assert ours - UNTOLD == MISTAKES.keys() | here
