"""What the author of a task, its input or its configuration got wrong, each with a stable code.

Knows no model and no command line; what Perago concludes about an attempt is `errors`.
"""

from typing import cast

from perago.domain.errors import PeragoError, ResetNeededError


class TaskDefinitionError(PeragoError, ValueError):
    """A task is declared in a way Perago does not accept."""

    code = "PRG-T001"


class RuntimeConfigError(PeragoError, ValueError):
    """A setting is missing or has a value that cannot be meant."""

    code = "PRG-C001"


class TaskInputError(PeragoError, ValueError):
    """What Conductor handed to a task is not the input the task declared."""

    code = "PRG-I001"


class StoredResultError(ResetNeededError, ValueError):
    """An earlier attempt stored a result that today's result model does not describe."""

    code = "PRG-R003"

    def __init__(self, differing: str) -> None:
        super().__init__(
            f"the stored result differs from today's result model in: {differing};"
            " deploy the code that decided, or reset the task"
        )
        self.differing = differing


class TaskExecutionError(PeragoError, RuntimeError):
    """A task body ends its attempt on purpose, with a reason meant for Conductor."""

    code = "PRG-B003"

    def __init__(self, reason: str) -> None:
        if not isinstance(cast("object", reason), str):  # callers need not be type-checked
            message = "reason must be str"
            raise TypeError(message)
        super().__init__(reason)
        self.reason = reason


class TaskFailed(TaskExecutionError):  # noqa: N818  # the public name of 0.6.1
    """The attempt failed and a retry may help."""

    code = "PRG-B001"


class TaskTerminalError(TaskExecutionError):
    """The attempt failed and no retry can help."""

    code = "PRG-B002"


class GuardrailViolation(PeragoError, RuntimeError):  # noqa: N818  # the public name of 0.6.1
    """The workspace is not what the task's guardrails ask for."""

    code = "PRG-G001"


class PreGuardrailViolation(GuardrailViolation):
    """The workspace was wrong before the body ran: terminal, the input will not change."""

    code = "PRG-G001"


class PostGuardrailViolation(GuardrailViolation):
    """The workspace was wrong after the body ran: nothing of it is published."""

    code = "PRG-G002"
