"""Laws of perago.ports.system."""

from uuid import UUID

import pytest
from tests.contract.local_adapters import IDENTITIES, wall_ms

from perago.domain.names import execution_time
from perago.ports.system import Identities


@pytest.fixture(params=list(IDENTITIES))
def identities(request: pytest.FixtureRequest) -> Identities:
    return IDENTITIES[request.param]()


def test_I1_executions_differ(identities: Identities) -> None:
    assert len({identities.new_execution_id() for _ in range(1000)}) == 1000


def test_I2_execution_ids_are_branch_safe(identities: Identities) -> None:
    for _ in range(100):
        execution_id = identities.new_execution_id()
        assert execution_id.isascii()
        assert execution_id.isalnum()


def test_I4_execution_ids_tell_their_time(identities: Identities) -> None:
    before = wall_ms()
    execution_id = identities.new_execution_id()
    after = wall_ms()
    found = execution_time(execution_id)
    assert found is not None
    assert before <= round(found.timestamp() * 1000) <= after
    assert UUID(execution_id).version == 7
    assert len(execution_id) == 32


def test_I3_fractions_stay_in_range(identities: Identities) -> None:
    fractions = [identities.fraction() for _ in range(1000)]
    assert all(0 <= fraction < 1 for fraction in fractions)
    assert len(set(fractions)) > 1
