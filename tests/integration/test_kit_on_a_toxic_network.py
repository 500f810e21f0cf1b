"""The faults of the wire as a network brings them about: the outcomes are those of the table.

Nothing is wrapped here: connections are cut, refused or slow, and the adapters have to notice.
"""

from collections.abc import Iterator

import pytest
from tests.integration.toxic_network import toxic_ground
from tests.kit_cases import CASES, Case, outcome_of

from perago.testing import (
    ExpireLease,
    LoseAnswer,
    LoseRequest,
    PeragoEnvironment,
    Unavailable,
    expire_lease,
)
from perago.testing.servers import Servers
from perago.testing.story import EventKind
from perago_servers import ConductorServer, LakefsServer, ToxiproxyServer

pytestmark = [pytest.mark.lakefs, pytest.mark.conductor]
LATE = expire_lease()
WIRE = [
    case
    for case in CASES
    if case.faults == (LATE,)
    or (
        case.faults
        and all(isinstance(f, LoseAnswer | LoseRequest | Unavailable) for f in case.faults)
    )
]


@pytest.fixture
def perago_servers(
    toxiproxy: ToxiproxyServer,
    lakefs_server: LakefsServer,
    conductor_workers_server: ConductorServer,
) -> Iterator[Servers]:
    """Servers behind a network that breaks."""
    with toxic_ground(toxiproxy, lakefs_server, conductor_workers_server) as ground:
        yield ground


def test_every_fault_of_the_wire_is_in_a_case() -> None:
    struck = [type(fault) for case in WIRE for fault in case.faults]
    assert {LoseAnswer, LoseRequest, Unavailable, ExpireLease} == set(struck)


def _struck_for_real(env: PeragoEnvironment) -> int:
    return sum(
        event.kind is EventKind.INJECTED and event.text.startswith("by real means: ")
        for attempt in env.attempts
        for event in attempt.events
    )


@pytest.mark.perago(policy="settled")
@pytest.mark.parametrize("case", WIRE, ids=lambda case: case.id)
async def test_settled(perago_env: PeragoEnvironment, case: Case) -> None:
    assert await outcome_of(perago_env, case.faults) == case.settled, await perago_env.story_text()
    assert _struck_for_real(perago_env) == len(case.faults)


@pytest.mark.perago(policy="head-parent")
@pytest.mark.parametrize("case", WIRE, ids=lambda case: case.id)
async def test_head_parent(perago_env: PeragoEnvironment, case: Case) -> None:
    assert await outcome_of(perago_env, case.faults) == case.head_parent, (
        await perago_env.story_text()
    )
    assert _struck_for_real(perago_env) == len(case.faults)
