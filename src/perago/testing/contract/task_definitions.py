"""Laws of perago.ports.conductor."""

from collections.abc import Mapping

import pytest

from perago.ports.errors import OutcomeUnknownError, RequestRefusedError
from perago.testing.contract.conductor_under_test import OWNER, ConductorScene
from perago.testing.contract.conductor_under_test import scene as scene

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


async def read(scene: ConductorScene, name: str) -> Mapping[str, object]:
    definition = await scene.definitions.read(name)
    assert definition is not None
    return definition


def shown(definition: Mapping[str, object], fields: Mapping[str, object]) -> dict[str, object]:
    return {field: definition.get(field) for field in fields}


async def test_D1_put_then_read(scene: ConductorScene) -> None:
    name = scene.unique("task")
    await scene.definitions.put({"name": name, "ownerEmail": OWNER, **EVERY_FIELD})
    definition = await read(scene, name)
    assert definition["name"] == name
    assert shown(definition, EVERY_FIELD) == EVERY_FIELD


async def test_D2_put_replaces(scene: ConductorScene) -> None:
    name = scene.unique("task")
    await scene.definitions.put({"name": name, "ownerEmail": OWNER, **EVERY_FIELD})
    await scene.definitions.put({"name": name, "ownerEmail": OWNER, "retryCount": 1})
    definition = await read(scene, name)
    assert shown(definition, DEFAULTS) == {**DEFAULTS, "retryCount": 1}
    assert definition.get("description") is None


async def test_D3_absent_definition_is_none(scene: ConductorScene) -> None:
    assert await scene.definitions.read(scene.unique("absent")) is None


async def test_D4_defaults(scene: ConductorScene) -> None:
    name = scene.unique("task")
    await scene.definitions.put({"name": name, "ownerEmail": OWNER})
    assert shown(await read(scene, name), DEFAULTS) == DEFAULTS


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
    scene: ConductorScene, response: int | None, execution: int, *, refused: bool
) -> None:
    name = scene.unique("task")
    given = {} if response is None else {"responseTimeoutSeconds": response}
    definition = {"name": name, "ownerEmail": OWNER, "timeoutSeconds": execution, **given}
    if refused:
        with pytest.raises(RequestRefusedError):
            await scene.definitions.put(definition)
        assert await scene.definitions.read(name) is None
    else:
        await scene.definitions.put(definition)
        assert (await read(scene, name))["timeoutSeconds"] == execution


async def test_D6_lost_answer_is_unknown(scene: ConductorScene) -> None:
    name = scene.unique("task")
    async with scene.losing_answers() as losing:
        with pytest.raises(OutcomeUnknownError):
            await losing.definitions.put({"name": name, "ownerEmail": OWNER})
    assert (await read(scene, name))["name"] == name
