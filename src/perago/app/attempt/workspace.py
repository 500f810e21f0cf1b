"""An attempt's workspace, from the input commit to the staged one: a local directory or Spark.

Each step is a method of the value that the step before has made, so none can be called too early:
`open_workspace` -> Opened -> `run` -> Ran -> `compare` -> Compared -> `stage`. What was staged goes
to `check_staged` of Ran, which knows where the checks can see it.

An attempt without a workspace puts out the result alone. Built-in tasks have no task function: they
need lakeFS, and executors have no keys, so the worker's parent serves them itself.
"""

from collections.abc import Mapping
from typing import Protocol

from pydantic import BaseModel

from perago.app.attempt.context import Attempt, AttemptPorts, Target
from perago.app.attempt.local_workspace import call_body
from perago.domain.errors import BodyFailedError
from perago.domain.logical_execution import StagedReference
from perago.ports.task_body import BodyStopped


class Compared(Protocol):
    """A workspace after the task function, beside what the input commit holds."""

    @property
    def changed(self) -> bool:
        """Whether there is anything to publish."""
        ...

    async def stage(self) -> StagedReference:
        """Commit the changes and the result on the private branch, or that nothing changed."""
        ...


class Ran(Protocol):
    """A workspace in which the task function has ended, and its validated result."""

    @property
    def result(self) -> Mapping[str, object]:
        """What the task function returned, as plain JSON."""
        ...

    async def check(self) -> None:
        """The author's `post` guardrails; a violation fails the attempt."""
        ...

    async def drop_writes(self) -> None:
        """The end of a read-only attempt: what was written is said, never published."""
        ...

    async def check_staged(self, target: Target, staged: StagedReference) -> None:
        """The author's checks of what was staged; a failed one fails the attempt."""
        ...

    async def compare(self, target: Target) -> Compared:
        """Find what the task function changed."""
        ...


class Opened(Protocol):
    """A workspace that shows the input commit."""

    async def check(self) -> None:
        """The author's `pre` guardrails; a violation is terminal, a retry has the same input."""
        ...

    async def run(self, params: Mapping[str, object]) -> Ran:
        """Run the team's task function."""
        ...


async def produce_freely(
    ports: AttemptPorts, attempt: Attempt, params: Mapping[str, object]
) -> Mapping[str, object]:
    """The output of an attempt without a workspace: the result alone."""
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
