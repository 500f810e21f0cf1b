"""The ports of one installation in one value: what an adapter package hands to the container."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from perago.ports.conductor import TaskDefinitions, TaskQueue, Workflows
from perago.ports.lakefs import Branches, Commits, Repositories, Tags
from perago.ports.objects import Objects, ObjectTransport
from perago.ports.system import Concurrency


async def nothing_to_close() -> None:
    """For installations that hold no connection."""


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What a server says of itself to those who have a key; what it does not say is empty."""

    version: str = ""
    user: str = ""
    """To whom the key belongs, where a server knows users."""
    signs: bool = False
    """Whether its block store signs addresses, by which objects do not pass through it."""


class Server(Protocol):
    """The server itself, before anything on it is used.

    Laws (tests/contract/test_server.py has one test for each, by name):

    V1 greeting_tells_the_servers_time: with its zone, and never going back.
    V2 facts_name_a_version: that is not empty.
    """

    async def greet(self) -> datetime | None:
        """Whether the address leads to such a server, and what its clock says; needs no key.

        UnavailableError when something else answers, or nothing. None where no time is told. It is
        in whole seconds, cut off, and some milliseconds old.
        """
        ...

    async def facts(self) -> ServerFacts:
        """What the server says of itself; AccessDeniedError for a key that it does not know."""
        ...


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
    server: Server | None = None
    close: Callable[[], Awaitable[None]] = nothing_to_close


@dataclass(frozen=True, slots=True)
class ConductorInstallation:
    """One Conductor."""

    queue: TaskQueue
    definitions: TaskDefinitions
    workflows: Workflows
    server: Server | None = None
    close: Callable[[], Awaitable[None]] = nothing_to_close
