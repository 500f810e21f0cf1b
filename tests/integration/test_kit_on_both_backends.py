"""The same kit tests in memory and on real servers, with the same outcomes.

On real servers the faults strike the adapters' ports: requests really travel, leases really end.
"""

from collections.abc import Iterator

import pytest
from tests.kit_cases import CASES, Case, outcome_of
from tools.servers import ConductorServer, LakefsServer

from perago.testing import MemoryGround, PeragoEnvironment
from perago.testing.ground import Ground
from perago.testing.real_ground import RealGround, RealServers

BOTH = [
    pytest.param("memory"),
    pytest.param("real", marks=[pytest.mark.lakefs, pytest.mark.conductor]),
]


@pytest.fixture(params=BOTH)
def perago_ground(request: pytest.FixtureRequest) -> Iterator[Ground]:
    """Servers of this session instead of those that the environment names."""
    if request.param == "memory":
        ground: Ground = MemoryGround()
    else:
        lakefs: LakefsServer = request.getfixturevalue("lakefs_server")
        conductor: ConductorServer = request.getfixturevalue("conductor_workers_server")
        ground = RealGround(
            RealServers(
                lakefs_url=lakefs.endpoint,
                access_key_id=lakefs.access_key_id,
                secret_access_key=lakefs.secret_access_key,
                namespace_root=lakefs.namespace_root,
                conductor_url=conductor.api_url,
            )
        )
    yield ground
    ground.close()


@pytest.mark.perago(policy="settled")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
async def test_settled(perago_env: PeragoEnvironment, case: Case) -> None:
    assert await outcome_of(perago_env, case.faults) == case.settled, await perago_env.told()


@pytest.mark.perago(policy="head-parent")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
async def test_head_parent(perago_env: PeragoEnvironment, case: Case) -> None:
    assert await outcome_of(perago_env, case.faults) == case.head_parent, await perago_env.told()
