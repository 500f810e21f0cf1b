"""Laws of perago.ports.conductor."""

from collections.abc import Mapping

import pytest

from perago.ports.errors import OutcomeUnknownError, RequestRefusedError
from perago.testing.contract.conductor_under_test import OWNER, ConductorUnderTest

# No value is a default of the server: a field that got lost on the way would read back as one.
EVERY_FIELD: Mapping[str, object] = {
    "description": "counts rows",
    "retryCount": 7,
    "retryLogic": "EXPONENTIAL_BACKOFF",
    "retryDelaySeconds": 5,
    "maxRetryDelaySeconds": 40,
    "backoffScaleFactor": 2,
    "backoffJitterMs": 250,
    "timeoutPolicy": "RETRY",
    "timeoutSeconds": 120,
    "responseTimeoutSeconds": 30,
    "pollTimeoutSeconds": 900,
    "concurrentExecLimit": 4,
    "rateLimitPerFrequency": 10,
    "rateLimitFrequencyInSeconds": 20,
    "inputKeys": ["workspace", "params"],
    "outputKeys": ["workspace", "result"],
    "inputTemplate": {"params": {"limit": 3}},
}
DEFAULTS: Mapping[str, object] = {
    "retryCount": 3,
    "retryLogic": "FIXED",
    "retryDelaySeconds": 60,
    "timeoutPolicy": "TIME_OUT_WF",
    "timeoutSeconds": 0,
    "responseTimeoutSeconds": 3600,
    "backoffScaleFactor": 1,
    "maxRetryDelaySeconds": 0,
    "backoffJitterMs": 0,
    "rateLimitPerFrequency": 0,
    "rateLimitFrequencyInSeconds": 1,
    "inputKeys": [],
    "outputKeys": [],
    "inputTemplate": {},
    "enforceSchema": False,
}


async def read(under_test: ConductorUnderTest, name: str) -> Mapping[str, object]:
    definition = await under_test.definitions.read(name)
    assert definition is not None
    return definition


def shown(definition: Mapping[str, object], fields: Mapping[str, object]) -> dict[str, object]:
    return {field: definition.get(field) for field in fields}


async def test_D1_put_then_read(conductor_under_test: ConductorUnderTest) -> None:
    name = conductor_under_test.unique("task")
    await conductor_under_test.definitions.put({"name": name, "ownerEmail": OWNER, **EVERY_FIELD})
    definition = await read(conductor_under_test, name)
    assert definition["name"] == name
    assert shown(definition, EVERY_FIELD) == EVERY_FIELD


async def test_D2_put_replaces(conductor_under_test: ConductorUnderTest) -> None:
    name = conductor_under_test.unique("task")
    await conductor_under_test.definitions.put({"name": name, "ownerEmail": OWNER, **EVERY_FIELD})
    await conductor_under_test.definitions.put({"name": name, "ownerEmail": OWNER, "retryCount": 1})
    definition = await read(conductor_under_test, name)
    assert shown(definition, DEFAULTS) == {**DEFAULTS, "retryCount": 1}
    assert definition.get("description") is None


async def test_D3_absent_definition_is_none(conductor_under_test: ConductorUnderTest) -> None:
    assert (
        await conductor_under_test.definitions.read(conductor_under_test.unique("absent")) is None
    )


async def test_D4_defaults(conductor_under_test: ConductorUnderTest) -> None:
    name = conductor_under_test.unique("task")
    await conductor_under_test.definitions.put({"name": name, "ownerEmail": OWNER})
    assert shown(await read(conductor_under_test, name), DEFAULTS) == DEFAULTS


@pytest.mark.parametrize(
    ("response", "execution", "refused"),
    [
        (11, 10, True),
        (10, 10, False),
        (9, 10, False),
        (3600, 0, False),
        (0, 0, True),
        (-1, 0, True),
        (None, 10, True),
    ],
    ids=["above", "equal", "below", "none", "zero", "negative", "default above"],
)
async def test_D5_impossible_timeouts_are_refused(
    conductor_under_test: ConductorUnderTest, response: int | None, execution: int, *, refused: bool
) -> None:
    name = conductor_under_test.unique("task")
    given = {} if response is None else {"responseTimeoutSeconds": response}
    definition = {"name": name, "ownerEmail": OWNER, "timeoutSeconds": execution, **given}
    if refused:
        with pytest.raises(RequestRefusedError):
            await conductor_under_test.definitions.put(definition)
        assert await conductor_under_test.definitions.read(name) is None
    else:
        await conductor_under_test.definitions.put(definition)
        assert (await read(conductor_under_test, name))["timeoutSeconds"] == execution


async def test_D6_lost_answer_is_unknown(conductor_under_test: ConductorUnderTest) -> None:
    name = conductor_under_test.unique("task")
    async with conductor_under_test.losing_answers() as losing:
        with pytest.raises(OutcomeUnknownError):
            await losing.definitions.put({"name": name, "ownerEmail": OWNER})
    assert (await read(conductor_under_test, name))["name"] == name
