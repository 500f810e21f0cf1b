"""`perago fence install | verify | remove REPO BRANCH`: the hook that guards a branch.

Prints what was found and done, and what running workflows must do; the work is `app.fence`.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated

import typer

from perago.app.command_line import reporting
from perago.app.command_line.services import RepositoryName, ask
from perago.app.fence.install import (
    FenceChange,
    FenceFailure,
    FenceReport,
    install_fence,
    install_in_many,
    remove_fence,
)
from perago.app.fence.trust import UNPROTECTED, verify_fence
from perago.domain.fence import FenceState
from perago.domain.lakefs import BranchName, RepositoryId
from perago.ports.asking import all_repositories

if TYPE_CHECKING:
    from perago.app.container import Container

app = reporting.CommandGroup("Install, verify or remove the publication fence of a branch.")

Branch = Annotated[str, typer.Argument(metavar="BRANCH", help="Name of the target branch.")]
NOT_TRUSTED = 4  # as PublishFenceError in `reporting`: scripts need one test for both
INCOMPLETE = 1  # some of many repositories failed, perhaps each for another reason
OLDER_COMMITS = (
    "workflows that started from older commits publish without the fence; "
    "let them finish, or start them again from the new head"
)


@app.subcommand("install")
def install(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="REPO BRANCH",
            help="Name of the repository, unless --match is given, and of the target branch.",
        ),
    ],
    *,
    match: Annotated[
        str | None,
        typer.Option(
            "--match",
            metavar="PATTERN",
            help="Install in every repository whose name matches, e.g. 'song-*'.",
        ),
    ] = None,
    protect: Annotated[
        bool,
        typer.Option(
            "--protect", help="Protect the branch first: merges pass, writes and resets do not."
        ),
    ] = False,
    as_json: reporting.JsonOption = False,
) -> None:
    """Commit the newest fence and merge it into the branch."""
    if len(names) != (2 if match is None else 1):
        expected = "REPO BRANCH" if match is None else "one BRANCH beside --match"
        raise reporting.CommandUsageError(f"expected {expected}, found {' '.join(names)}")
    branch = BranchName(names[-1])
    if match is not None:
        _install_in_many(match, branch, protect=protect, as_json=as_json)
        return
    repository = RepositoryId(names[0])
    report = ask(
        lambda container: install_fence(
            container.fence_tools(), repository, branch, protect=protect
        )
    )
    _print_report(report, as_json=as_json)
    if not report.protected:
        reporting.warn(f"{branch} is not protected: {UNPROTECTED}, or install with --protect")
    if report.change is not FenceChange.UNCHANGED:
        reporting.note(OLDER_COMMITS)


def _install_in_many(match: str, branch: BranchName, *, protect: bool, as_json: bool) -> None:
    """One line for each repository as it ends, and how many in the end."""
    tell = reporting.note if as_json else reporting.say

    def show(end: FenceReport | FenceFailure) -> None:
        if isinstance(end, FenceReport):
            tell(_line(end))
        else:
            reporting.warn(f"{end.repository}: {end.error}")

    async def install(container: "Container") -> list[FenceReport | FenceFailure]:
        every = await all_repositories(container.lakefs().repositories)
        found = [name for name in every if fnmatchcase(name, match)]
        if not found:
            raise reporting.CommandUsageError(
                f"none of {len(every)} repositories matches {match!r}"
            )
        reporting.note(f"{len(found)} of {len(every)} repositories match {match!r}")
        tools, concurrency = container.fence_tools(), container.concurrency()
        return await install_in_many(tools, concurrency, found, branch, show, protect=protect)

    ends = ask(install)
    reports = [end for end in ends if isinstance(end, FenceReport)]
    failures = [end for end in ends if isinstance(end, FenceFailure)]
    if as_json:
        rows = [*map(asdict, reports), *map(_failure_document, failures)]
        reporting.say_json("fences/1", {"match": match, "branch": branch, "repositories": rows})
    _sum_up(branch, reports, len(failures))
    if failures:
        raise typer.Exit(INCOMPLETE)


def _sum_up(branch: BranchName, reports: Sequence[FenceReport], failed: int) -> None:
    counts = Counter(report.change for report in reports)
    counted = [f"{counts[change]} {change}" for change in FenceChange if counts[change]]
    added = sum(report.protection_added for report in reports)
    if added:
        counted.append(f"protection added to {added}")
    reporting.note(", ".join([*counted, f"{failed} failed"]))
    resettable = sum(not report.protected for report in reports)
    if resettable:
        reporting.warn(f"{branch} is not protected in {resettable} of them: {UNPROTECTED}")
    if len(reports) > counts[FenceChange.UNCHANGED]:
        reporting.note(OLDER_COMMITS)


@app.subcommand("remove")
def remove(
    repository: RepositoryName, branch: Branch, *, as_json: reporting.JsonOption = False
) -> None:
    """Remove the fence from the branch."""
    report = ask(
        lambda container: remove_fence(
            container.fence_tools(), RepositoryId(repository), BranchName(branch)
        )
    )
    _print_report(report, as_json=as_json)


@app.subcommand("verify", short_help="Check the fence, and that the server enforces it.")
def verify(
    repository: RepositoryName, branch: Branch, *, as_json: reporting.JsonOption = False
) -> None:
    """Check that the fence is unmodified and that the server enforces it.

    Perago tries a merge on a scratch branch that the server must refuse, and one into a protected
    scratch branch that must pass. For the second one it adds a protection rule for a moment.
    """
    verdict = ask(
        lambda container: verify_fence(
            container.fence_tools(),
            container.clock(),
            RepositoryId(repository),
            BranchName(branch),
        )
    )
    document = {**asdict(verdict), "warnings": list(verdict.warnings)}
    line = f"{verdict.state}: {verdict.repository} {verdict.branch} at {verdict.head}"
    reporting.say_answer("fence-verdict/1", document, [line], as_json=as_json)
    if not as_json:
        if verdict.state is not FenceState.TRUSTED:
            reporting.note(f"run `perago fence install {verdict.repository} {verdict.branch}`")
        for warning in verdict.warnings:
            reporting.warn(warning)
    if not verdict.works:
        raise typer.Exit(NOT_TRUSTED)


def _failure_document(failure: FenceFailure) -> dict[str, object]:
    error = {"code": failure.error.code, "message": str(failure.error)}
    return {"repository": failure.repository, "branch": failure.branch, "error": error}


def _print_report(report: FenceReport, *, as_json: bool) -> None:
    reporting.say_answer("fence/1", asdict(report), [_line(report)], as_json=as_json)


def _line(report: FenceReport) -> str:
    added = ", protection added" if report.protection_added else ""
    return f"{report.change}{added}: {report.repository} {report.branch} at {report.commit}"
