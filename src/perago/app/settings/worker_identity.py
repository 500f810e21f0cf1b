"""What a worker is called: a prefix from the module target, and a number or the process id.

Names only; which processes exist is decided elsewhere.
"""

import os
from collections.abc import Mapping

from perago.app.settings.parsing import parse_worker_id_prefix
from perago.domain.authoring_errors import TaskDefinitionError

WORKER_ID, WORKER_ID_PREFIX = "PERAGO_WORKER_ID", "PERAGO_WORKER_ID_PREFIX"


def worker_id_prefix_of(configured: str | None, module_target: str) -> str:
    """Return the configured prefix, or the one that the module target gives."""
    if configured is not None:
        return parse_worker_id_prefix(configured, WORKER_ID_PREFIX)
    prefix = default_worker_id_prefix(module_target)
    if not prefix and not all(part.isidentifier() for part in module_target.split(".")):
        raise TaskDefinitionError(
            "module target must be a Python import path, not a file path or object path",
            code="PRG-T013",
        )
    return parse_worker_id_prefix(prefix, WORKER_ID_PREFIX)


def default_worker_id_prefix(module_target: str) -> str:
    """The ASCII letters and digits of a module target."""
    return "".join(each for each in module_target if each.isascii() and each.isalnum())


def worker_id_for_child(prefix: str, index: int) -> str:
    """Id of the executor in one slot."""
    return f"{prefix}{index:04d}"


def child_environment(
    base_env: Mapping[str, str], module_target: str, index: int
) -> dict[str, str]:
    """Environment of the executor in one slot."""
    prefix = worker_id_prefix_of(base_env.get(WORKER_ID_PREFIX), module_target)
    own = {WORKER_ID_PREFIX: prefix, WORKER_ID: worker_id_for_child(prefix, index)}
    return {**base_env, **own}


def resolve_worker_id(module_target: str, env: Mapping[str, str]) -> str:
    """Id of this process: the one its parent gave it, else one with its process id."""
    given = env.get(WORKER_ID)
    if given:
        return given
    prefix = worker_id_prefix_of(env.get(WORKER_ID_PREFIX), module_target)
    return f"{prefix}-pid-{os.getpid()}"
