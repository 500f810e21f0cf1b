"""In-memory lakeFS and Conductor as the container takes them: one of each name in a process.

`memory:` and `memory:other` are two worlds; whoever asks for the same name gets the same one.
"""

from functools import cache

from perago.adapters.memory.branches import MemoryBranches
from perago.adapters.memory.clock import VirtualClock
from perago.adapters.memory.commits import MemoryCommits
from perago.adapters.memory.conductor_server import MemoryConductor
from perago.adapters.memory.lakefs import MemoryLakeFS
from perago.adapters.memory.objects import MemoryObjects
from perago.adapters.memory.repositories import MemoryRepositories
from perago.adapters.memory.tags import MemoryTags
from perago.adapters.memory.task_definitions import MemoryTaskDefinitions
from perago.adapters.memory.task_queue import MemoryTaskQueue
from perago.adapters.memory.transport import MemoryTransport
from perago.adapters.memory.worker_handle import WorkerHandle
from perago.adapters.memory.workflows import MemoryWorkflows
from perago.ports.installations import ConductorInstallation, LakeFSInstallation


def lakefs_installation(lakefs: MemoryLakeFS, handle: WorkerHandle) -> LakeFSInstallation:
    """The ports of one worker on an in-memory lakeFS."""
    objects = MemoryObjects(lakefs, handle)
    return LakeFSInstallation(
        branches=MemoryBranches(lakefs, handle),
        commits=MemoryCommits(lakefs, handle),
        tags=MemoryTags(lakefs, handle),
        objects=objects,
        repositories=MemoryRepositories(lakefs, handle),
        transport=lambda concurrency: MemoryTransport(objects, concurrency),
    )


def conductor_installation(
    conductor: MemoryConductor, handle: WorkerHandle
) -> ConductorInstallation:
    """The ports of one worker on an in-memory Conductor."""
    return ConductorInstallation(
        queue=MemoryTaskQueue(conductor, handle),
        definitions=MemoryTaskDefinitions(conductor, handle),
        workflows=MemoryWorkflows(conductor, handle),
    )


@cache
def shared_lakefs(url: str) -> LakeFSInstallation:
    """The ports of the lakeFS of this name in this process."""
    return lakefs_installation(shared_memory(url), WorkerHandle())


@cache
def shared_memory(url: str) -> MemoryLakeFS:
    """The lakeFS of this name in this process."""
    del url  # it is the name under which the cache keeps the world
    return MemoryLakeFS()


@cache
def shared_conductor(url: str) -> ConductorInstallation:
    """The Conductor of this name in this process."""
    del url  # it is the name under which the cache keeps the world
    return conductor_installation(MemoryConductor(VirtualClock()), WorkerHandle())
