"""Asks lakeFS and Conductor what a command has to know, and closes what was opened for it."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from perago.app.settings.runtime_config import connections_of
from perago.app.settings.settings import Settings, load_settings
from perago.domain.logical_execution import RepositoryId
from perago.ports.asking import all_repositories
from perago.ports.installations import ConductorInstallation, LakeFSInstallation

if TYPE_CHECKING:
    from perago.app.container import Container

Answer = TypeVar("Answer")
OneRepository = Annotated[
    str | None, typer.Option("--repo", metavar="REPO", help="Look here only. Default: everywhere.")
]
LeftRepository = Annotated[
    str | None,
    typer.Option(
        "--repo", metavar="REPO", help="Repository, if Conductor does not know the workflow."
    ),
]


def ask(
    question: Callable[["Container"], Awaitable[Answer]], settings: Settings | None = None
) -> Answer:
    """Run the question with the services that are configured, and return its answer."""

    async def asked() -> Answer:
        async with opened_services(settings or load_settings()) as services:
            return await question(services)

    return asyncio.run(asked())


@asynccontextmanager
async def opened_services(settings: Settings) -> AsyncGenerator["Container"]:
    """The services that are configured, for the block."""
    # The container imports an adapter's libraries, which `--help` should not wait for.
    from perago.app.container import Container  # noqa: PLC0415

    container = Container(connections=connections_of(settings))
    try:
        yield container
    finally:
        for service in container.opened():
            await service.close()


def conductor_if_configured(services: "Container") -> ConductorInstallation | None:
    """Conductor, for commands that have something to say without it."""
    configured = services.connections().conductor is not None
    return services.conductor() if configured else None


async def one_or_all(lakefs: LakeFSInstallation, repository: str | None) -> list[RepositoryId]:
    """The repositories in which to search: the one that was named, or all."""
    return [RepositoryId(repository)] if repository else await all_repositories(lakefs.repositories)
