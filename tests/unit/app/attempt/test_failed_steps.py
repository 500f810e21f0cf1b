"""The failure tables of documents 001 and 002 and of the specification: what each step may do.

Every step of an attempt is made to fail once; the row says what Conductor is told. A step that
fails after the result exists never takes it back.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.unit.app.attempt.attempt_scene import AttemptScene

from perago.app.authoring.guardrails import forbid_glob, require_file
from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.domain.errors import TaskFailed, TaskTerminalError
from perago.domain.outcome import RESULT_BYTES_MAX, RefusedByHook
from perago.domain.policy import PolicySetting
from perago.ports.errors import RequestRefusedError, UnavailableError
from perago.testing.faults import Fault, always, answer, lose_request, refuse

FAILED = "FAILED"
TERMINAL = "FAILED_WITH_TERMINAL_ERROR"
COMPLETED = "COMPLETED"
HANDED_BACK = "HANDED_BACK"
NOT_SENT = "NOT SENT"
PLAIN, SETTLED = PolicySetting.HEAD_PARENT, PolicySetting.SETTLED
DOWN = UnavailableError("no answer")
REFUSED = RequestRefusedError("refused")


def _raise(error: Exception) -> Callable[[Path, int], None]:
    def body(_workspace: Path, _run: int) -> None:
        raise error

    return body


def _link(workspace: Path, _: int) -> None:
    (workspace / "link").symlink_to("kept.txt")


@dataclass(frozen=True)
class Row:
    """One step, how it is made to fail, and what the attempt ends as; stale ones send nothing."""

    step: str
    status: str
    faults: Sequence[Fault] = ()
    policy: PolicySetting = PLAIN
    spec: WorkspaceSpec = field(default_factory=lambda: WorkspaceSpec(prefix="data"))
    body: Callable[[Path, int], None] | None = None
    params: object = field(default_factory=dict[str, object])
    result_bytes: int = 0
    null_input: bool = False
    runs: int = 1

    def __str__(self) -> str:
        return self.step


def _guarded(**guardrails: object) -> WorkspaceSpec:
    return WorkspaceSpec.model_validate({"prefix": "data", **guardrails})


def _down(operation: str, nth: int = 1) -> list[Fault]:
    """For longer than an attempt waits for an answer."""
    return [always(refuse(operation, DOWN, nth=nth))]


def _every(operation: str) -> list[Fault]:
    return [always(lose_request(operation))]


ROWS = [
    Row("envelope", FAILED, null_input=True, runs=0),
    Row("params", FAILED, params={"text": ["not a text"]}, runs=0),
    Row("place", FAILED, _down("repositories.read"), runs=0),
    Row("policy", TERMINAL, policy=SETTLED, runs=0),
    Row("place, settled", HANDED_BACK, _down("repositories.read"), SETTLED, runs=0),
    Row("resume", HANDED_BACK, _down("tags.read"), SETTLED, runs=0),
    Row("download", FAILED, _down("objects.download"), runs=0),
    Row("pre guardrails", TERMINAL, spec=_guarded(pre=[require_file("absent")]), runs=0),
    Row("body", FAILED, body=_raise(ValueError("any error"))),
    Row("body, an author's failure", FAILED, body=_raise(TaskFailed("again"))),
    Row("body, an author's terminal failure", TERMINAL, body=_raise(TaskTerminalError("never"))),
    Row("post guardrails", FAILED, spec=_guarded(post=[forbid_glob("out.txt")])),
    Row("diff", FAILED, body=_link),
    Row("attempt fence before staging", NOT_SENT, [answer("fence", None)]),
    Row("stage", FAILED, [refuse("objects.upload", REFUSED)]),
    Row("stage, a result too large", TERMINAL, (), SETTLED, result_bytes=RESULT_BYTES_MAX),
    Row("decide", FAILED, _every("decide"), SETTLED),
    Row("read head", FAILED, _down("head", nth=2)),
    Row("attempt fence before the effect", NOT_SENT, [answer("fence", None, nth=2)]),
    Row("effect", FAILED, [answer("merge", RefusedByHook("another hook"))]),
    Row("settle", FAILED, _every("merge")),
    Row("complete", COMPLETED, _every("complete")),
    Row("read back", COMPLETED, _down("read-back")),
    Row("clean staging", COMPLETED, [refuse("clean-up", REFUSED)]),
]


@pytest.mark.parametrize("row", ROWS, ids=str)
async def test_a_failed_step_ends_the_attempt_as_its_row_says(tmp_path: Path, row: Row) -> None:
    fenced = row.policy is SETTLED and row.step != "policy"
    scene = AttemptScene(tmp_path, row.policy, fenced, spec=row.spec, body=row.body)
    scene.params, scene.result_text = row.params, "x" * row.result_bytes
    if row.null_input:
        await scene.start(None)
    else:
        await scene.start()

    story = await scene.next_attempt(*row.faults)

    assert story.status == row.status, story.reason
    assert (story.reason is None) is (row.status == COMPLETED)
    assert scene.runs == row.runs
    assert len(scene.publications()) == (1 if row.status == COMPLETED else 0)
