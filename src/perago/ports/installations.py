"""The ports of one installation in one value: what an adapter package hands to the container."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from perago.ports.conductor import TaskDefinitions, TaskQueue, Workflows
from perago.ports.lakefs import Branches, Commits, Repositories, Tags
from perago.ports.objects import Objects, ObjectTransport
from perago.ports.system import Concurrency


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
    transport: Callable[[Concurrency], ObjectTransport]
    """The way of object bytes, over the same connections as everything else."""
    close: Callable[[], Awaitable[None]] = nothing_to_close


@dataclass(frozen=True, slots=True)
class ConductorInstallation:
    """One Conductor."""

    queue: TaskQueue
    definitions: TaskDefinitions
    workflows: Workflows
    close: Callable[[], Awaitable[None]] = nothing_to_close
