"""The remedy of each code of publications and services, in the harness where it happened.

The mistake is made as `test_codes_by_mistake` makes it. Then the commands of the remedy run as
`perago explain` prints them, and the next attempt, or a new workflow, completes.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.people import discard_uncommitted, reset_hard
from tests.unit.app.attempt.attempt_harness import AttemptHarness
from tests.unit.app.attempt.attempt_scene import TASK
from tests.unit.app.attempt.test_codes_by_mistake import MISTAKES, Told, told
from tests.unit.app.attempt.test_terminal_refusals import ROWS
from tests.unit.app.command_line.command_run import Ran
from tests.unit.remedies.servers import (
    Cure,
    anew,
    anew_from_what_was_printed,
    completes,
    is_known,
    retried,
    serve,
)
from tests.unit.remedies.shell import DONE, Shell

from perago.domain.fence import FENCE_FILE
from perago.domain.paths import ACTIONS_PREFIX, FENCE_PATH
from perago.domain.policy import PolicySetting

SETTLED = PolicySetting.SETTLED
TROUBLES = {row.code: row.trouble for row in ROWS}


async def told_in_trouble(code: str, root: Path) -> Told:
    """Make a mistake that is kept as what happens to a harness."""
    harness = await AttemptHarness(root, SETTLED).started()
    return await told(harness, await TROUBLES[code](harness))


async def fence_is_missing(root: Path) -> Told:
    return await told(await AttemptHarness(root, SETTLED, fenced=False).started())


async def fence_was_edited(root: Path) -> Told:
    harness = AttemptHarness(root, SETTLED, fenced=False)
    edited = FENCE_FILE.replace(b"error(", b"print(")
    harness.input = harness.repository.commit({FENCE_PATH: edited}, unchecked=True)
    return await told(await harness.started())


async def the_target_is_reset_to_before_the_input(root: Path) -> Told:
    harness = AttemptHarness(root, SETTLED)
    harness.input = harness.human("elsewhere/newer.txt")
    await harness.start()
    reset_hard(harness.repository, harness.repository.head().parents[0])
    harness.human()
    return await told(harness)


def hooks_go_on(harness: AttemptHarness) -> None:
    harness.lakefs.actions_enabled = True


def readme_goes(harness: AttemptHarness) -> None:
    harness.repository.commit({f"{ACTIONS_PREFIX}README.md": None}, unchecked=True)


def fence_is_wanted(harness: AttemptHarness) -> None:
    harness.policy = SETTLED


def workflow_ends(harness: AttemptHarness) -> None:
    harness.conductor.terminate(harness.workflow, "the operator looks at it")


@dataclass(frozen=True)
class Scene:
    """What the remedy shows, and what follows; `before` is what it asks a person to do first."""

    cure: Cure
    shown: str = ""
    before: Callable[[AttemptHarness], None] | None = None
    make: Callable[[Path], Awaitable[Told]] | None = None


SCENES = {
    "PRG-F001": Scene(is_known, "TERMINATED"),
    "PRG-F002": Scene(anew_from_what_was_printed),
    "PRG-F003": Scene(anew_from_what_was_printed),
    "PRG-F004": Scene(anew_from_what_was_printed),
    "PRG-F005": Scene(anew_from_what_was_printed, make=the_target_is_reset_to_before_the_input),
    "PRG-F006": Scene(retried, before=workflow_ends),
    "PRG-F007": Scene(completes, "files"),
    "PRG-F008": Scene(anew_from_what_was_printed),
    "PRG-F009": Scene(retried),
    "PRG-F011": Scene(anew, f"{ACTIONS_PREFIX}README.md"),
    "PRG-F012": Scene(anew_from_what_was_printed),
    "PRG-F013": Scene(anew),
    "PRG-F014": Scene(anew),
    "PRG-F015": Scene(anew_from_what_was_printed),
    "PRG-F020": Scene(anew, make=fence_is_missing),
    "PRG-F021": Scene(anew, make=fence_was_edited),
    "PRG-F022": Scene(completes, before=hooks_go_on),
    "PRG-F023": Scene(is_known, before=hooks_go_on),
    "PRG-F025": Scene(retried, before=workflow_ends),
    "PRG-F026": Scene(anew_from_what_was_printed),
    "PRG-F027": Scene(is_known, "perago-staging-1"),
    "PRG-I012": Scene(retried, before=workflow_ends),
    "PRG-L002": Scene(anew, "repo"),
    "PRG-L003": Scene(completes, "PERAGO_LAKEFS=memory:scene  (environment)"),
    "PRG-L004": Scene(completes, "main"),
    "PRG-L007": Scene(completes, "LAKECTL_CREDENTIALS_ACCESS_KEY_ID="),
    "PRG-L008": Scene(completes, "PERAGO_LAKEFS=memory:scene  (environment)"),
    "PRG-L009": Scene(completes, "files"),
    "PRG-U001": Scene(completes, "files"),
    "PRG-U002": Scene(completes, "PRG-L008: "),
}
# Then the reason itself says what else to do: nothing is published in place of what was there.
AFTERWARDS: dict[str, Callable[[AttemptHarness], None]] = {
    "PRG-F011": readme_goes,
    "PRG-F014": fence_is_wanted,
}


@pytest.mark.parametrize("code", SCENES)
def test_a_remedy_cures_or_shows_the_next_fact(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    scene = SCENES[code]
    harness, reason = asyncio.run(_made(code, scene, tmp_path / "world"))
    assert code in reason
    serve(shell, harness, monkeypatch)
    if scene.before is not None:
        scene.before(harness)
    ran = _followed(shell, harness, code, reason)
    assert (ran.code, scene.shown in ran.out) == (0, True), ran
    if code in AFTERWARDS:
        AFTERWARDS[code](harness)
    asyncio.run(scene.cure(harness, ran))


async def _made(code: str, scene: Scene, root: Path) -> Told:
    if scene.make is not None:
        return await scene.make(root)
    return await (MISTAKES[code](root) if code in MISTAKES else told_in_trouble(code, root))


def _followed(shell: Shell, harness: AttemptHarness, code: str, reason: str) -> Ran:
    """Run the remedy; what a person puts in is in the row, or in its reason."""
    names = {
        "WORKFLOW": harness.workflow,
        "REFERENCE": TASK,
        "REPO": "repo",
        "BRANCH": "main",
        "MESSAGE": "kept-by-hand",
        "CODE": "PRG-L008",
        "URL": "http://127.0.0.1:1",
    }
    shell.typed += [
        harness.workflow,
        TASK,
        "repo main",
        "kept-by-hand",
        reason,
        "http://127.0.0.1:1",
    ]
    return shell.follow_reason(code, **names)


async def test_a_retry_goes_on_where_uncommitted_objects_were_thrown_away(tmp_path: Path) -> None:
    harness, _ = await told_in_trouble("PRG-F013", tmp_path)
    discard_uncommitted(harness.repository)
    await completes(harness, DONE)
