"""Asks lakeFS and Conductor what a command has to know, and closes what was opened for it."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from perago.app.connections import connections_of
from perago.app.settings.settings import Settings, load_settings
from perago.domain.lakefs import BranchName, RepositoryId
from perago.ports.asking import all_repositories
from perago.ports.conductor import Workflows
from perago.ports.installations import LakeFSInstallation

if TYPE_CHECKING:
    from perago.app.container import Container

Answer = TypeVar("Answer")


def repository_option(text: str) -> Any:  # noqa: ANN401  # typer keeps the type to itself
    """`--repo REPO`, with what a command needs it for."""
    return typer.Option("--repo", metavar="REPO", parser=RepositoryId, help=text)


def branch_option(text: str) -> Any:  # noqa: ANN401  # typer keeps the type to itself
    """`--branch BRANCH`, with what a command needs it for."""
    return typer.Option("--branch", metavar="BRANCH", parser=BranchName, help=text)


# Arguments and options that several commands have.
RepositoryName = Annotated[str, typer.Argument(metavar="REPO", help="Name of the repository.")]
OneRepository = Annotated[
    RepositoryId | None, repository_option("Look here only. Default: everywhere.")
]
LeftRepository = Annotated[
    RepositoryId | None, repository_option("Repository, if Conductor does not know the workflow.")
]
LeftBranch = Annotated[
    BranchName | None, branch_option("Branch. Default: the one of the repository.")
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


def workflows_if_configured(services: "Container") -> Workflows | None:
    """Conductor's workflows, for commands that have something to say without it."""
    configured = services.connections().conductor is not None
    return services.conductor().workflows if configured else None


async def one_or_all(
    lakefs: LakeFSInstallation, repository: RepositoryId | None
) -> list[RepositoryId]:
    """The repositories in which to search: the one that was named, or all."""
    return [repository] if repository else await all_repositories(lakefs.repositories)
