"""The way of one attempt through the code is the one that docs/architecture.md shows."""

import asyncio
import re
import sys
from pathlib import Path
from types import FrameType

from tests.unit.app.attempt.attempt_harness import AttemptHarness
from tests.unit.app.worker.test_worker_life import nothing_to_do, started

from perago.domain.attempt import WorkflowStatus
from perago.domain.policy import PolicySetting

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
APPLICATION = str(ROOT / "src/perago/app") + "/"
HOPS_MAX = 14
FILES_TO_READ_MAX = 15
LINES_TO_READ_MAX = 2_000
# Carried along by every step, and no step of the way: values, and what listens to the steps.
BESIDE = (
    "telemetry/",
    "attempt/context.py",
    "attempt/patience.py",
    "authoring/",
    "settings/",
    "worker/bodies.py",
)


def section(title: str) -> str:
    """The text below a heading of the page."""
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def numbered_files(title: str) -> list[str]:
    """The files that the numbered rows of a section name, in order."""
    rows = re.findall(r"^\| \d+ \| `([\w/]+\.py)`", section(title), re.MULTILINE)
    return [f"src/perago/{each}" for each in rows]


async def files_entered(harness: AttemptHarness) -> list[str]:
    """The application's files in the order in which an attempt enters them, from its poll on."""
    entered: list[str] = []

    def note(frame: FrameType, event: str, argument: object) -> None:
        del argument
        name = frame.f_code.co_filename
        if event != "call" or not name.startswith(APPLICATION):
            return
        short = name.removeprefix(APPLICATION)
        if not short.startswith(BESIDE) and short not in entered:
            entered.append(short)

    worker, running = await started(harness, job=nothing_to_do())
    sys.setprofile(note)
    try:
        async with asyncio.timeout(30):
            while (await harness.read()).status is not WorkflowStatus.COMPLETED:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    finally:
        sys.setprofile(None)
    worker.drain()
    await running
    return [f"src/perago/app/{each}" for each in entered]


async def test_the_page_shows_the_hops_of_a_real_attempt(tmp_path: Path) -> None:
    shown = numbered_files("The way of one attempt")
    assert len(shown) <= HOPS_MAX
    assert await files_entered(AttemptHarness(tmp_path, PolicySetting.SETTLED)) == shown


def test_what_has_to_be_read_to_understand_publishing_is_short() -> None:
    files = [ROOT / each for each in numbered_files("How `settled` publishes, in reading order")]
    assert 5 < len(files) <= FILES_TO_READ_MAX
    lines = sum(len(each.read_text(encoding="utf-8").splitlines()) for each in files)
    assert lines <= LINES_TO_READ_MAX, lines
