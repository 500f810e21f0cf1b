"""Takes transcripts across the bridge: replays them on real servers, several beside each other."""

import asyncio
from collections.abc import Mapping, Sequence

from tests.contract.real_lakefs import RealLakeFS
from tests.simulation.bridge.real_stage import BeatsLateError, RealStage
from tests.simulation.bridge.replay import Diverged, Replay, StumbledError, differences
from tests.simulation.bridge.steps import Outcome, Transcript

from perago.ports.errors import ServiceError
from perago.ports.installations import ConductorInstallation

AT_ONCE = 10  # more of them only make each other late
TRIES_MAX = 4


async def cross(
    transcripts: Sequence[Transcript], lakefs: RealLakeFS, conductor: ConductorInstallation
) -> Mapping[str, str]:
    """Replay each on a repository and a workflow of its own; what differs, by name."""
    places = asyncio.Semaphore(AT_ONCE)

    async def one(transcript: Transcript) -> str:
        async with places:
            told = ""
            for _ in range(TRIES_MAX):
                try:
                    return await _replayed(transcript, lakefs, conductor)
                # A lease may have expired that the transcript keeps, or the server's SQLite was
                # locked by another transcript: neither says anything, so it is run again.
                except (BeatsLateError, StumbledError) as found:
                    told = f"{transcript.name}: {found}"
            return told

    found = await asyncio.gather(*map(one, transcripts))
    names = [transcript.name for transcript in transcripts]
    return {name: told for name, told in zip(names, found, strict=True) if told}


async def _replayed(
    transcript: Transcript, lakefs: RealLakeFS, conductor: ConductorInstallation
) -> str:
    stage = RealStage(transcript.mix, lakefs, conductor)
    try:
        await stage.open()
    except ServiceError as busy:
        raise StumbledError(str(busy)) from busy
    try:
        outcome = await Replay(stage, transcript, stage.words()).run()
    except Diverged as diverged:
        return str(diverged)
    return difference(transcript, outcome)


def difference(transcript: Transcript, outcome: Outcome) -> str:
    """Where an outcome differs from what was recorded; empty where it does not."""
    expected = transcript.outcome
    return "\n".join(
        f"{transcript.name}, {name}\n{differences(repr(expected[name]), repr(outcome[name]))}"
        for name in expected
        if outcome[name] != expected[name]
    )
