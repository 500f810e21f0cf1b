"""`perago fence install | verify | remove REPO BRANCH`: the server-side comparison of heads.

Prints what was found and done, and what running workflows must do; the work is `app.fence`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

import typer

from perago.app.command_line.reporting import (
    JsonOption,
    command_group,
    note,
    reports_errors_by_class,
    say,
    say_json,
    warn,
)
from perago.app.fence.install import (
    FenceChange,
    FenceReport,
    FenceTools,
    FenceVerdict,
    install_fence,
    remove_fence,
    verify_fence,
)
from perago.app.fence.trust import Canary
from perago.app.settings.runtime_config import connections_of
from perago.app.settings.settings import load_settings
from perago.domain.fence import FenceState
from perago.domain.logical_execution import BranchName, RepositoryId

app = command_group("Install, verify or remove the publication fence of a branch.")

Repository = Annotated[str, typer.Argument(metavar="REPO", help="Name of the repository.")]
Branch = Annotated[str, typer.Argument(metavar="BRANCH", help="Name of the target branch.")]
Answer = TypeVar("Answer")
NOT_TRUSTED = 4  # as PublishFenceError in `reporting`: scripts need one test for both


@app.command("install")
@reports_errors_by_class
def install(repository: Repository, branch: Branch, *, as_json: JsonOption = False) -> None:
    """Commit the newest fence and merge it into the branch."""
    report = _ask(
        lambda tools, _: install_fence(tools, RepositoryId(repository), BranchName(branch))
    )
    _print_report(report, as_json=as_json)
    if report.change is not FenceChange.UNCHANGED:
        note(
            "workflows that started from older commits publish without the fence; "
            "let them finish, or start them again from the new head"
        )


@app.command("remove")
@reports_errors_by_class
def remove(repository: Repository, branch: Branch, *, as_json: JsonOption = False) -> None:
    """Remove the fence from the branch."""
    report = _ask(
        lambda tools, _: remove_fence(tools, RepositoryId(repository), BranchName(branch))
    )
    _print_report(report, as_json=as_json)


@app.command("verify")
@reports_errors_by_class
def verify(repository: Repository, branch: Branch, *, as_json: JsonOption = False) -> None:
    """Check that the fence is unmodified and that the server enforces it.

    Perago tries a merge on a scratch branch that the server must refuse.
    """
    verdict = _ask(
        lambda tools, canary: verify_fence(
            tools, canary, RepositoryId(repository), BranchName(branch)
        )
    )
    _print_verdict(verdict, as_json=as_json)
    if verdict.state is not FenceState.TRUSTED:
        raise typer.Exit(NOT_TRUSTED)


def _ask(question: Callable[[FenceTools, Canary], Awaitable[Answer]]) -> Answer:
    from perago.app.container import Container  # noqa: PLC0415  # heavy, and needed late

    container = Container(connections=connections_of(load_settings()))

    async def ask() -> Answer:
        try:
            return await question(container.fence_tools(), container.canary())
        finally:
            await container.lakefs().close()

    return asyncio.run(ask())


def _print_report(report: FenceReport, *, as_json: bool) -> None:
    if as_json:
        document = {"repository": report.repository, "branch": report.branch}
        facts = {"change": report.change, "commit": report.commit, "before": report.before}
        say_json("fence/1", {**document, **facts})
        return
    say(f"{report.change}: {report.repository} {report.branch} at {report.commit}")


def _print_verdict(verdict: FenceVerdict, *, as_json: bool) -> None:
    if as_json:
        document = {"repository": verdict.repository, "branch": verdict.branch}
        facts = {"head": verdict.head, "state": verdict.state, "version": verdict.version}
        facts["protected"] = verdict.protected
        say_json("fence-verdict/1", {**document, **facts, "warnings": list(verdict.warnings)})
        return
    say(f"{verdict.state}: {verdict.repository} {verdict.branch} at {verdict.head}")
    if verdict.state is not FenceState.TRUSTED:
        note(f"run `perago fence install {verdict.repository} {verdict.branch}`")
    for warning in verdict.warnings:
        warn(warning)
