"""The bridge: what the search explores in memory goes the same way on the real servers."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio
from tests.contract.real_conductor import settings_of
from tests.contract.real_lakefs import connected
from tests.simulation.bridge.by_hand import BY_HAND, HEAD_PARENT, SETTLED
from tests.simulation.bridge.chosen import from_the_search
from tests.simulation.bridge.crossing import cross, difference
from tests.simulation.bridge.from_the_model import FROM_THE_MODEL
from tests.simulation.bridge.held import at_once
from tests.simulation.bridge.memory_stage import open_memory_stage
from tests.simulation.bridge.outcome import with_one_end_of_a_join
from tests.simulation.bridge.replay import Diverged, Replay
from tests.simulation.bridge.scripts import Script, played
from tests.simulation.bridge.steps import Outcome, Transcript
from tests.simulation.bridge.words import Words
from tests.simulation.mix import Mix
from tests.simulation.sometimes import SOMETIMES

from perago.adapters.conductor.installation import open_conductor
from perago.adapters.memory.hooks import has_lua
from perago.domain.attempt import AttemptRecord, AttemptSnapshot, AttemptStatus
from perago.ports.installations import ConductorInstallation
from perago_servers import ConductorServer, LakefsServer

pytestmark = pytest.mark.simulation

TRANSCRIPTS_MIN = 60
SITUATIONS_MIN = 50
REFUSED = "others commit inside the prefix before the merge"
RELOCATED = "head-parent: dies after the merge"
FAILED, CANCELED = AttemptStatus.FAILED, AttemptStatus.CANCELED
COMPLETED, OPEN = AttemptStatus.COMPLETED, AttemptStatus.IN_PROGRESS


@pytest.fixture(scope="module")
def transcripts() -> list[Transcript]:
    """All of them, as they run in memory."""
    return [*map(played, [*BY_HAND, *FROM_THE_MODEL]), *from_the_search()]


@pytest_asyncio.fixture
async def conductor(
    conductor_workers_server: ConductorServer,
) -> AsyncIterator[ConductorInstallation]:
    """The real Conductor, one whose JOIN tasks move."""
    installation = open_conductor(settings_of(conductor_workers_server))
    yield installation
    await installation.close()


@pytest.mark.parametrize("script", FROM_THE_MODEL, ids=lambda script: script.name)
def test_a_trace_of_the_model_check_comes_to_its_end(script: Script) -> None:
    assert played(script).outcome["end"] == script.end


def test_there_are_enough_transcripts(transcripts: list[Transcript]) -> None:
    names = {transcript.name for transcript in transcripts}
    seen = frozenset[str]().union(*(transcript.seen for transcript in transcripts))
    assert len(names) == len(transcripts) >= TRANSCRIPTS_MIN
    assert len(seen & set(SOMETIMES)) >= SITUATIONS_MIN


def test_memory_runs_the_text_of_the_fence_in_lua() -> None:
    assert has_lua()


def test_a_transcript_goes_the_same_way_in_memory_again(transcripts: list[Transcript]) -> None:
    for transcript in transcripts:
        assert not difference(transcript, _again(transcript, transcript.mix))


@pytest.mark.parametrize(
    ("name", "other"),
    [
        pytest.param(
            REFUSED, replace(SETTLED, fenced=False), id="a server that does not run the fence"
        ),
        pytest.param(
            RELOCATED, replace(HEAD_PARENT, protected=True), id="a server that does not relocate"
        ),
    ],
)
def test_a_server_that_does_something_else_is_noticed(name: str, other: Mix) -> None:
    transcript = played(next(script for script in BY_HAND if script.name == name))
    with pytest.raises(Diverged):
        _again(transcript, other)


@pytest.mark.parametrize(
    ("branch", "join", "told"),
    [
        pytest.param(FAILED, FAILED, CANCELED, id="it looked before the decision"),
        pytest.param(FAILED, CANCELED, CANCELED, id="it looked after the decision"),
        pytest.param(COMPLETED, FAILED, FAILED, id="no branch failed"),
        pytest.param(CANCELED, FAILED, FAILED, id="an operator ended the workflow"),
        pytest.param(FAILED, COMPLETED, COMPLETED, id="it passed a failed branch"),
        pytest.param(FAILED, OPEN, OPEN, id="it is open"),
    ],
)
def test_the_two_ends_of_a_join_of_a_failed_fork_are_one(
    branch: AttemptStatus, join: AttemptStatus, told: AttemptStatus
) -> None:
    waits_for: dict[str, object] = {"joinOn": ["t", "u"]}
    failed = AttemptRecord(_row("t", "left", branch), reason="its own")
    joined = AttemptRecord(_row("join", "JOIN", join), waits_for, reason="of the branch")
    first, second = with_one_end_of_a_join([failed, joined])
    assert first == failed
    one = branch is FAILED and join in {FAILED, CANCELED}
    reason = None if one else "of the branch"
    assert second == replace(joined, snapshot=replace(joined.snapshot, status=told), reason=reason)


@pytest.mark.lakefs
@pytest.mark.conductor
@pytest.mark.timeout(900)
async def test_real_servers_go_the_same_way(
    transcripts: list[Transcript],
    lakefs_server: LakefsServer,
    conductor: ConductorInstallation,
) -> None:
    async with connected(lakefs_server) as lakefs:
        different = await cross(transcripts, lakefs, conductor)
    assert not different, "\n\n".join(different.values())


def _row(reference: str, task_type: str, status: AttemptStatus) -> AttemptSnapshot:
    return AttemptSnapshot("flow", reference, reference, task_type, status)


def _again(transcript: Transcript, mix: Mix) -> Outcome:
    return at_once(Replay(open_memory_stage(mix), transcript, Words()).run())
