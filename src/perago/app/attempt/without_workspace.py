"""What an attempt without a workspace puts out: what its task function returned.

Built-in tasks have no task function. They need lakeFS, and executors have no keys, so the worker's
parent serves them itself.
"""

from collections.abc import Mapping

from pydantic import BaseModel

from perago.app.attempt.context import Attempt, AttemptPorts
from perago.app.attempt.local_workspace import call_body
from perago.domain.errors import BodyFailedError
from perago.ports.task_body import BodyStopped


async def produce_freely(
    ports: AttemptPorts, attempt: Attempt, params: Mapping[str, object]
) -> Mapping[str, object]:
    """The result alone."""
    if attempt.task.built_in:
        return {"result": await _serve(ports, attempt, params)}
    returned = await call_body(ports, attempt, params, None)
    return {"result": dict(returned.result)}


async def _serve(
    ports: AttemptPorts, attempt: Attempt, params: Mapping[str, object]
) -> dict[str, object]:
    """Serve a built-in task until it ends, or until the order to stop it.

    The order may come between any two of its requests, as a death may. So whatever it has begun,
    the next attempt has to be able to go on with.
    """
    given = attempt.task.params_model.model_validate(params)
    served: BaseModel | BodyStopped = await ports.stop_order.before_end_of(
        attempt.task.fn(ports, attempt, given)
    )
    if isinstance(served, BodyStopped):
        raise BodyFailedError(served.reason, cause=served.cause)
    return served.model_dump(mode="json", by_alias=True)
