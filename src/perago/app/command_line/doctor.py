"""`perago doctor`: examine settings, servers and this machine, and name the next command.

One line for each finding, or one document (`--json`). Both can be pasted into an issue: keys,
secrets and passwords in addresses are masked. What is examined is in `perago.app.inspection`.
"""

import asyncio
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Annotated

import typer

from perago._version import __version__
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.command_line.loading import load_tasks
from perago.app.command_line.reporting import FAILED, JsonOption, note, say, say_json
from perago.app.command_line.services import branch_option, repository_option
from perago.app.connections import connections_of
from perago.app.inspection.doctor import (
    Check,
    Examination,
    Finding,
    Status,
    Subject,
    failure_of,
    ok,
)
from perago.app.inspection.doctor_conductor import CONDUCTOR_CHECKS
from perago.app.inspection.doctor_host import HOST_CHECKS
from perago.app.inspection.doctor_rights import LAKEFS_CHECKS
from perago.app.settings.settings import Settings, load_settings
from perago.domain.errors import PeragoError
from perago.domain.lakefs import BranchName, RepositoryId
from perago.domain.text import Secrets

# From what everything needs to what one publication needs.
CHECKS: tuple[Check, ...] = (*LAKEFS_CHECKS, *CONDUCTOR_CHECKS, *HOST_CHECKS)
MODULES = "task modules"
# By the family of the first failure: the table of docs/reference/command-line.md, as far as the
# codes of a family mean one line of it.
_EXIT_CODES = {"PRG-C": 3, "PRG-F": 4, "PRG-U": 5, "PRG-L": 6}


def doctor(
    targets: Annotated[
        list[str] | None,
        typer.Argument(metavar="MODULE", help="Task modules that this worker serves."),
    ] = None,
    *,
    repository: Annotated[
        RepositoryId | None, repository_option("Repository to try rights and fence on.")
    ] = None,
    branch: Annotated[
        BranchName | None, branch_option("Target branch. Default: the repository's.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Find out why nothing runs or publishes, and print a command for each problem.

    Each finding is ok, a warning or a failure. What it tries, it tries on scratch branches and
    removes again. The output holds no keys.
    """
    settings, modules = load_settings(), tuple(targets or ())
    tasks, known = _load(modules)
    subject = _subject(settings, repository, branch, modules, tasks)
    findings = asyncio.run(_examine(subject, known, as_json=as_json))
    counts = Counter(each.status for each in findings)
    if as_json:
        rows = [{**asdict(each), "commands": list(each.commands)} for each in findings]
        totals = {f"{status}_count": counts[status] for status in Status}
        say_json("doctor/1", {"version": __version__, **totals, "findings": rows})
    note(", ".join(f"{counts[status]} {status}" for status in Status))
    code = exit_code_of(findings)
    if code:
        raise typer.Exit(code)


def exit_code_of(findings: Sequence[Finding]) -> int:
    """That of the first failure, which is behind those after it; 0 without one."""
    first = next((each for each in findings if each.status is Status.FAILURE), None)
    return 0 if first is None else _EXIT_CODES.get(first.code[:5], FAILED)


def _load(targets: Sequence[str]) -> tuple[tuple[TaskDefinition, ...], list[Finding]]:
    """The tasks, and what importing them said."""
    if not targets:
        return (), []
    try:
        tasks = load_tasks(targets)
    except PeragoError as error:
        return (), [replace(failure_of(error, {"MODULE": " ".join(targets)}), check=MODULES)]
    return tuple(tasks), [replace(ok(", ".join(task.name for task in tasks)), check=MODULES)]


def _subject(
    settings: Settings,
    repository: RepositoryId | None,
    branch: BranchName | None,
    modules: tuple[str, ...],
    tasks: tuple[TaskDefinition, ...],
) -> Subject:
    from perago.app import container, pipeline_parts  # noqa: PLC0415  # heavy, and needed late

    connections = connections_of(settings)
    parts = container.Container(connections=connections)
    return Subject(
        connections=connections,
        open_lakefs=container.open_lakefs,
        open_conductor=container.open_conductor,
        clock=parts.clock(),
        identities=parts.identities(),
        concurrency=parts.concurrency(),
        directories=parts.directories(),
        installed_spark=lambda: pipeline_parts.installed_spark(
            settings, container.spark_gateway(connections)
        ),
        repository=repository,
        branch=branch,
        modules=modules,
        tasks=tasks,
    )


async def _examine(subject: Subject, known: Sequence[Finding], *, as_json: bool) -> list[Finding]:
    from perago.app.start_worker import known_secrets  # noqa: PLC0415  # heavy

    settings = subject.settings
    # The ids of keys as well: with one of them an attacker needs the secret only.
    ids = {settings.lakectl_credentials_access_key_id or "", settings.conductor_auth_key or ""}
    secrets = Secrets.of(known_secrets(settings, os.environ) | ids)
    examination = Examination(subject, secrets, lambda check: note(f"waiting for: {check}"))
    findings: list[Finding] = []
    async for finding in examination.run(CHECKS, known):
        findings.append(finding)
        if not as_json:
            _print(finding)
    return findings


def _print(finding: Finding) -> None:
    say(f"{finding.status:<7}  {finding.check}: {finding.evidence}")
    if finding.code:
        say(f"         {finding.code}: {finding.remedy}")
    elif finding.remedy:
        say(f"         {finding.remedy}")
