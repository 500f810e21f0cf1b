"""What `perago doctor` is made of: checks in a fixed order, and what each of them found.

A check asks one question of the settings, of a server or of this machine. Each has a bound of time.
A check that needs an earlier one which failed is not asked, and says so. What is asked is in the
modules beside this one (`doctor_lakefs` and others).
"""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal

from perago.app.authoring.task_definition import TaskDefinition
from perago.app.connections import ConductorConnection, Connections, LakeFSConnection
from perago.app.settings.settings import Settings
from perago.domain.error_codes import commands_in, filled, find_code
from perago.domain.errors import PeragoError
from perago.domain.lakefs import BranchName, RepositoryId
from perago.domain.text import Secrets
from perago.ports.errors import LocalDiskError, ServiceError
from perago.ports.installations import ConductorInstallation, LakeFSInstallation
from perago.ports.system import Clock, Concurrency, Identities
from perago.ports.workspace import AttemptDirectories

# A short answer takes milliseconds. A person who waits at a terminal gives up on a check soon, and
# a firewall that drops packets answers none of its requests.
CHECK_SECONDS = 10.0
# Of one question to lakeFS; a merge with a hook takes milliseconds, 5 MiB less than a second.
ANSWER_SECONDS = 5.0
# A person who sees nothing for longer wonders whether the command hangs.
SLOW_SECONDS = 2.0
_VERSION = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?")
_PASSWORD_IN_ADDRESS = re.compile(r"(?<=://)[^/@\s'\"]+@")


class Status(StrEnum):
    """How bad it is; a failure stops workers, a warning will or may."""

    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True)
class Finding:
    """One answer of a check; the commands of a remedy stand in backticks and run as they are."""

    check: str = field(default="", kw_only=True)
    """Its name; where it is empty, the examination writes down that of the check that was asked."""
    status: Status
    evidence: str
    remedy: str = ""
    code: str = ""

    @property
    def commands(self) -> tuple[str, ...]:
        """What can be typed."""
        return commands_in(self.remedy)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """All that a check may ask; a server is opened by the connection that the check wants."""

    connections: Connections
    open_lakefs: Callable[[LakeFSConnection | None], LakeFSInstallation]
    open_conductor: Callable[[ConductorConnection | None], ConductorInstallation]
    clock: Clock
    identities: Identities
    concurrency: Concurrency
    directories: AttemptDirectories
    installed_spark: Callable[[], tuple[str, str]]
    """The version of pyspark, and a line of all versions; raises for what does not fit together."""
    repository: RepositoryId | None = None
    branch: BranchName | None = None
    modules: tuple[str, ...] = ()
    tasks: tuple[TaskDefinition, ...] = ()

    @property
    def settings(self) -> Settings:
        """The settings of the worker that is asked about."""
        return self.connections.settings

    @property
    def lakefs_connection(self) -> LakeFSConnection:
        """The connection to lakeFS; without one nothing there can be asked."""
        if self.connections.lakefs is None:
            raise NotCheckedError("lakeFS is not configured", remedy_of("PRG-C010", {}))
        return self.connections.lakefs

    @asynccontextmanager
    async def lakefs(
        self, connection: LakeFSConnection | None = None, *, answer_seconds: float = ANSWER_SECONDS
    ) -> AsyncGenerator[LakeFSInstallation]:
        """The configured lakeFS, or another one, for the block; it answers soon or not at all."""
        asked = connection or self.lakefs_connection
        lakefs = self.open_lakefs(replace(asked, answer_seconds=answer_seconds))
        try:
            yield lakefs
        finally:
            await lakefs.close()

    @asynccontextmanager
    async def conductor(
        self, connection: ConductorConnection | None = None
    ) -> AsyncGenerator[ConductorInstallation]:
        """The configured Conductor, or another one, for the block."""
        conductor = self.open_conductor(connection or self.connections.conductor)
        try:
            yield conductor
        finally:
            await conductor.close()

    @property
    def names(self) -> Mapping[str, str]:
        """What stands for the capital words of a remedy."""
        found = {
            "REPO": self.repository,
            "BRANCH": self.branch,
            "MODULE": " ".join(self.modules),
            "PATH": str(self.settings.workspace_root),
        }
        return {name: value for name, value in found.items() if value}


class NotCheckedError(Exception):
    """A check was not told enough, or what it asks is not configured: no failure of anything."""

    def __init__(self, because: str, remedy: str = "") -> None:
        super().__init__(f"not checked, because {because}")
        self.remedy = remedy


Ask = Callable[[Subject], AsyncIterator[Finding]]


@dataclass(frozen=True, slots=True)
class Check:
    """One question; `needs` names earlier checks that must not have failed.

    `seconds` is all the time that it gets. A check with another bound says why.
    """

    name: str
    ask: Ask
    needs: tuple[str, ...] = ()
    seconds: float = CHECK_SECONDS
    server: Literal["lakefs", "conductor", ""] = ""  # whose address stands in remedies

    def names(self, subject: Subject) -> dict[str, str]:
        """What stands for the capital words of a remedy."""
        connections = subject.connections
        servers = {"lakefs": connections.lakefs, "conductor": connections.conductor}
        connection = servers.get(self.server)
        return {**subject.names, **({} if connection is None else {"URL": connection.url})}


def ok(evidence: str) -> Finding:
    """Nothing has to be done."""
    return Finding(Status.OK, evidence)


def remedy_of(code: str, names: Mapping[str, str]) -> str:
    """The remedy of an error code, for what was examined."""
    row = find_code(code)
    return "" if row is None else filled(row.remedy, names)


def coded(status: Status, evidence: str, code: str, names: Mapping[str, str]) -> Finding:
    """A problem with an error code, whose remedy it gets."""
    return Finding(status, evidence, remedy_of(code, names), code)


def failure_of(error: Exception, names: Mapping[str, str]) -> Finding:
    """An error that ended a check, with the remedy of its code."""
    code = error.code if isinstance(error, PeragoError | ServiceError) else LocalDiskError.code
    return coded(Status.FAILURE, str(error), code, names)


def version_numbers(version: str) -> tuple[int, ...]:
    """A version in order; nothing for a build of one's own, which says `dev`."""
    found = _VERSION.match(version)
    return () if found is None else tuple(int(each or 0) for each in found.groups())


Heard = Callable[[str], None]
"""Told, for a person who waits, which check takes long."""


@dataclass(slots=True)
class Examination:
    """One run of all checks on one subject."""

    subject: Subject
    secrets: Secrets
    slow: Heard
    # Name of a check without a good end, and the first failure behind it.
    _blocked: dict[str, str] = field(default_factory=dict[str, str])

    async def run(
        self, checks: Sequence[Check], known: Sequence[Finding] = ()
    ) -> AsyncIterator[Finding]:
        """Ask one check after another; yields what each found, with secrets masked.

        `known` comes first: what was found while the subject was made.
        """
        for finding in known:
            self._note(finding.check, [finding])
            yield self._pasteable(finding)
        for check in checks:
            for finding in await self._findings(check):
                yield self._pasteable(finding)

    async def _findings(self, check: Check) -> list[Finding]:
        root = next((self._blocked[n] for n in check.needs if n in self._blocked), "")
        if root:
            self._blocked[check.name] = root
            why = f"not checked, because {root} failed"
            return [Finding(Status.WARNING, why, check=check.name)]
        found = await self._asked(check)
        findings = [replace(each, check=each.check or check.name) for each in found]
        self._note(check.name, findings)
        return findings

    def _note(self, check: str, findings: Sequence[Finding]) -> None:
        """Remember a failure; a check that could not be asked is no reason for later ones."""
        if any(each.status is Status.FAILURE for each in findings):
            self._blocked[check] = check

    async def _asked(self, check: Check) -> list[Finding]:
        """What a check said, also when it did not come to its end."""
        findings: list[Finding] = []

        async def ask() -> None:
            async for finding in check.ask(self.subject):
                findings.append(finding)  # noqa: PERF401 - those before an error are kept

        waiting = asyncio.get_running_loop().call_later(SLOW_SECONDS, self.slow, check.name)
        try:
            await asyncio.wait_for(ask(), check.seconds)
        except TimeoutError:
            text = f"no answer within {check.seconds:g} s"
            names = check.names(self.subject)
            findings.append(coded(Status.FAILURE, text, "PRG-L008", names))
        except NotCheckedError as error:
            findings.append(Finding(Status.WARNING, str(error), error.remedy))
        except (PeragoError, ServiceError, OSError) as error:
            findings.append(failure_of(error, check.names(self.subject)))
        finally:
            waiting.cancel()
        return findings

    def _pasteable(self, finding: Finding) -> Finding:
        """The same without keys: who asks for help pastes the whole of it."""
        masked, remedy = self._masked, self._runnable(finding.remedy)
        return replace(finding, evidence=masked(finding.evidence), remedy=masked(remedy))

    def _runnable(self, remedy: str) -> str:
        """With what `lakectl` has to be told: it does not know Perago's name of the address."""
        settings, lakefs = self.subject.settings, self.subject.connections.lakefs
        if lakefs is None or "`lakectl " not in remedy:
            return remedy
        if settings.lakectl_server_endpoint_url == lakefs.url:
            return remedy
        return f"`export LAKECTL_SERVER_ENDPOINT_URL={lakefs.url}` is for lakectl; {remedy}"

    def _masked(self, text: str) -> str:
        return self.secrets.masked(_PASSWORD_IN_ADDRESS.sub("***@", text))
