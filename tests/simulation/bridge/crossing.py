"""Takes transcripts across the bridge: replays them on real servers, several beside each other."""

import asyncio
from collections.abc import Mapping, Sequence

from tests.contract.real_lakefs import RealLakeFS
from tests.simulation.bridge.real_stage import BeatsLateError, RealStage
from tests.simulation.bridge.replay import Diverged, Replay, differences
from tests.simulation.bridge.steps import Outcome, Transcript

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
            for _ in range(TRIES_MAX):
                try:
                    return await _replayed(transcript, lakefs, conductor)
                except BeatsLateError:  # a lease may have expired that the transcript keeps
                    continue
            raise TimeoutError(f"{transcript.name}: this machine is too slow to keep a lease")

    found = await asyncio.gather(*map(one, transcripts))
    names = [transcript.name for transcript in transcripts]
    return {name: told for name, told in zip(names, found, strict=True) if told}


async def _replayed(
    transcript: Transcript, lakefs: RealLakeFS, conductor: ConductorInstallation
) -> str:
    stage = RealStage(transcript.mix, lakefs, conductor)
    await stage.open()
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
