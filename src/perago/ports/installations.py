"""The ports of one installation in one value: what an adapter package hands to the container."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from perago.ports.branches import Branches
from perago.ports.commits import Commits
from perago.ports.objects import Objects
from perago.ports.repositories import Repositories
from perago.ports.tags import Tags
from perago.ports.task_definitions import TaskDefinitions
from perago.ports.task_queue import TaskQueue
from perago.ports.workflows import Workflows


async def nothing_to_close() -> None:
    """For installations that hold no connection."""


@dataclass(frozen=True, slots=True)
class LakeFSInstallation:
    """One lakeFS."""

    branches: Branches
    commits: Commits
    tags: Tags
    objects: Objects
    repositories: Repositories
    close: Callable[[], Awaitable[None]] = nothing_to_close


@dataclass(frozen=True, slots=True)
class ConductorInstallation:
    """One Conductor."""

    queue: TaskQueue
    definitions: TaskDefinitions
    workflows: Workflows
    close: Callable[[], Awaitable[None]] = nothing_to_close
