"""What `perago doctor` tries by doing it: each right of the key, and each route of object bytes.

It writes on scratch branches and removes them. Those of a doctor that was killed are canaries by
name, which garbage collection removes after an hour.
"""

import hashlib
import re
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from perago.app.inspection.doctor import Check, Finding, Status, Subject, ok, remedy_of
from perago.app.inspection.doctor_lakefs import KEY, KEY_REMEDY, configured, lakefs_of, server_of
from perago.app.inspection.doctor_repository import (
    REPOSITORY,
    RIGHTS,
    Target,
    target_of,
)
from perago.domain.commit_metadata import EXPECTED_HEAD
from perago.domain.errors import PublicationRefusedError
from perago.domain.logical_execution import BranchName, CommitId, TagName
from perago.domain.names import canary_branches, relocated_tag
from perago.domain.outcome import Merged, NoAnswer, NotPublished, Relocated
from perago.domain.settled import after_merge
from perago.ports.errors import (
    AccessDeniedError,
    RequestRefusedError,
    ServiceError,
    UnavailableError,
    is_away,
)
from perago.ports.installations import LakeFSInstallation
from perago.ports.lakefs import CommitRequest, MergeRequest
from perago.ports.objects import FetchOrder, ObjectUpload

ROUTES = "routes"
PATH = "perago-doctor"
# Beyond the 4 MiB from which objects may go past lakeFS to its block store.
ROUTE_BYTES = 5 * 1024 * 1024
# lakeFS repeats what its block store does not answer, and says after that what was wrong. A shorter
# limit would end the check before lakeFS has named the cause; a longer one only lets a person wait.
ROUTE_SECONDS = 60.0
# lakeFS names the address that its block store's library asked.
_ADDRESS = re.compile(r"https?://[^/\s\"]+")


@asynccontextmanager
async def scratch(
    subject: Subject, lakefs: LakeFSInstallation, target: Target
) -> AsyncGenerator[tuple[BranchName, BranchName]]:
    """Names of two branches, which are gone afterwards."""
    names = canary_branches(subject.identities.new_execution_id())
    try:
        yield names
    finally:
        for name in names:
            with suppress(ServiceError):
                await lakefs.branches.delete(target.repository, name)


@dataclass(slots=True)
class _Trial:
    """What an attempt does, on branches of its own: one step for each right that it takes."""

    lakefs: LakeFSInstallation
    target: Target
    merged: BranchName
    written: BranchName
    tag: TagName
    file: Path
    staged: CommitId | None = None

    async def create(self) -> None:
        """Two branches, hidden as those of attempts."""
        for name in (self.merged, self.written):
            at = self.target.repository, name, self.target.head
            await self.lakefs.branches.create(*at, hidden=True)

    async def write(self) -> None:
        """One small object."""
        upload = ObjectUpload(PATH, self.file)
        await self.lakefs.objects.upload(self.target.repository, self.written, upload)

    async def list_objects(self) -> None:
        """One page."""
        at = self.target.repository, self.written
        await self.lakefs.objects.list_page(*at, prefix=PATH)

    async def read(self) -> None:
        """The object again."""
        await self.lakefs.objects.read(self.target.repository, self.written, PATH)

    async def commit(self) -> None:
        """What was written."""
        request = CommitRequest(self.target.repository, self.written, "perago doctor", {})
        self.staged = await self.lakefs.commits.commit(request)

    async def merge(self) -> None:
        """As a publication is merged: the fence lets it pass."""
        request = MergeRequest(
            self.target.repository,
            self.staged or self.target.head,
            self.merged,
            "perago doctor",
            {EXPECTED_HEAD: self.target.head},
            allow_empty=True,
        )
        answer = await self.lakefs.branches.merge(request)
        if isinstance(answer, NoAnswer):
            raise UnavailableError(answer.text)
        if not isinstance(answer, Merged):
            after = after_merge(answer)
            code = after.code if isinstance(after, NotPublished) else RequestRefusedError.code
            raise _denied_or(PublicationRefusedError(answer.text, code=code))

    async def delete_object(self) -> None:
        """The object."""
        await self.lakefs.objects.delete_many(self.target.repository, self.written, [PATH])

    async def tag_it(self) -> None:
        """As a decision is kept."""
        at = self.target.repository, self.tag
        await self.lakefs.tags.create(*at, self.target.head)

    async def untag(self) -> None:
        """As garbage collection does."""
        await self.lakefs.tags.delete(self.target.repository, self.tag)

    async def reset(self) -> None:
        """As policy head-parent replaces an abandoned publication."""
        at = self.target.repository, self.merged, self.target.head
        answer = await self.lakefs.branches.relocate(*at)
        if not isinstance(answer, Relocated):
            raise _denied_or(RequestRefusedError(answer.text))

    async def delete(self) -> None:
        """As garbage collection does."""
        for name in (self.merged, self.written):
            await self.lakefs.branches.delete(self.target.repository, name)

    def steps(self) -> Sequence["_Right"]:
        """Each right, in an order in which it can be tried."""
        return (
            _Right("create a branch", "fs:CreateBranch", self.create),
            _Right("write an object", "fs:WriteObject", self.write),
            _Right("list objects", "fs:ListObjects", self.list_objects),
            _Right("read an object", "fs:ReadObject", self.read),
            _Right("commit", "fs:CreateCommit", self.commit),
            _Right("merge", "fs:CreateCommit", self.merge),
            _Right("delete an object", "fs:DeleteObject", self.delete_object),
            _Right("create a tag", "fs:CreateTag", self.tag_it),
            _Right("delete a tag", "fs:DeleteTag", self.untag, "garbage collection needs it"),
            _Right("reset a branch", "fs:RevertBranch", self.reset, "policy head-parent needs it"),
            _Right("delete a branch", "fs:DeleteBranch", self.delete),
        )


@dataclass(frozen=True, slots=True)
class _Right:
    """What a key may do, in words and as lakeFS calls it; `why` where not every worker needs it."""

    words: str
    action: str
    use: Callable[[], Awaitable[None]]
    why: str = ""


def _denied_or(error: Exception) -> Exception:
    """A refusal that is an answer, as one of the key if that is why."""
    is_denied = str(error).startswith(("status 401", "status 403"))
    return AccessDeniedError(str(error)) if is_denied else error


async def rights(subject: Subject) -> AsyncIterator[Finding]:
    """Every right that an attempt takes, tried in turn."""
    async with lakefs_of(subject) as lakefs:
        target = await target_of(subject, lakefs)
        tag = relocated_tag(target.head, subject.identities.new_execution_id())
        with TemporaryDirectory(prefix="perago-doctor-") as directory:
            file = Path(directory) / PATH
            file.write_bytes(PATH.encode())
            async with scratch(subject, lakefs, target) as names:
                trial = _Trial(lakefs, target, *names, tag, file)
                try:
                    async for finding in _tried(subject, trial):
                        yield finding
                finally:
                    with suppress(ServiceError):
                        await lakefs.tags.delete(target.repository, tag)


async def _tried(subject: Subject, trial: _Trial) -> AsyncIterator[Finding]:
    """What the key may, and may not."""
    target, may, is_denied = trial.target, list[str](), False
    for right in trial.steps():
        try:
            await right.use()
            may.append(right.words)
        except AccessDeniedError as error:
            is_denied = True
            yield _denied(target, right, error)
        except (PublicationRefusedError, ServiceError) as error:
            # Without an earlier right the branch or object for this one is not there.
            if not is_denied:
                yield _failed(RIGHTS, subject, target, error)
                return
    yield ok(RIGHTS, f"in {target.repository} the key may {', '.join(may) or 'nothing of this'}")


def _denied(target: Target, right: _Right, error: AccessDeniedError) -> Finding:
    text = f"in {target.repository} the key may not {right.words} ({right.action}): {error}"
    remedy = f"{KEY_REMEDY}; or let the policies of its user allow it"
    if right.why:
        return Finding(RIGHTS, Status.WARNING, f"{text}; {right.why}", remedy, error.code)
    return Finding(RIGHTS, Status.FAILURE, text, remedy, error.code)


async def routes(subject: Subject) -> AsyncIterator[Finding]:
    """Five MiB up and down on each route that this lakeFS has."""
    async with lakefs_of(subject) as lakefs:
        target = await target_of(subject, lakefs)
        signs = (await server_of(lakefs).facts()).signs
    try:
        yield ok(ROUTES, await _moved(subject, target, "api"))
        through = True
    except ServiceError as error:
        yield _failed(ROUTES, subject, target, error)
        through = False
    if not signs or subject.settings.transfer_route == "api":
        return
    try:
        yield ok(ROUTES, await _moved(subject, target, "presigned"))
    except ServiceError as error:
        yield _unreachable(subject, error, through=through)


def _failed(
    check: str, subject: Subject, target: Target, error: PublicationRefusedError | ServiceError
) -> Finding:
    """A request through lakeFS; what its block store said is in the answer of lakeFS."""
    # What became of a request does not matter here, because its branch is removed.
    code = UnavailableError.code if is_away(error) else error.code
    remedy = remedy_of(code, {**target.names, "URL": configured(subject).url})
    if store := _ADDRESS.search(str(error)):
        remedy = f"`curl -sS {store[0]}` shows whether the block store of lakeFS answers; start it"
    return Finding(check, Status.FAILURE, str(error), remedy, code)


def _unreachable(subject: Subject, error: ServiceError, *, through: bool) -> Finding:
    """The block store did not take it from this machine."""
    only_way = subject.settings.transfer_route == "presigned" or not through
    remedy = remedy_of(error.code, {"URL": configured(subject).url})
    if through:
        remedy = "`export PERAGO_TRANSFER_ROUTE=api`: through lakeFS 5 MiB did move"
    return Finding(
        ROUTES,
        Status.FAILURE if only_way else Status.WARNING,
        f"by signed addresses of the block store: {error}",
        remedy,
        error.code,
    )


async def _moved(subject: Subject, target: Target, route: str) -> str:
    """How long a file took on a route, both ways."""
    connection = replace(configured(subject), route=route)
    monotonic, content = subject.clock.monotonic, secrets.token_bytes(ROUTE_BYTES)
    with TemporaryDirectory(prefix="perago-doctor-") as directory:
        up, down = Path(directory) / "up", Path(directory) / "down"
        up.write_bytes(content)
        async with (
            lakefs_of(subject, connection) as lakefs,
            scratch(subject, lakefs, target) as (name, _),
        ):
            transport = lakefs.transport(subject.concurrency)
            await lakefs.branches.create(target.repository, name, target.head, hidden=True)
            began = monotonic()
            at = target.repository, name
            (entry,) = await transport.store(*at, [ObjectUpload(PATH, up)])
            sent = monotonic()
            (fetched,) = await transport.fetch(*at, [FetchOrder(entry, down)])
            ended = monotonic()
    assert fetched.md5 == hashlib.md5(content, usedforsecurity=False).hexdigest()
    way = "through lakeFS" if route == "api" else "by signed addresses of the block store"
    return f"{way}: 5 MiB up in {sent - began:.2f} s, down in {ended - sent:.2f} s"


RIGHTS_CHECKS = (Check(RIGHTS, rights, needs=(REPOSITORY, KEY), server="lakefs"),)
ROUTE_CHECKS = (
    Check(ROUTES, routes, needs=(REPOSITORY, RIGHTS), seconds=ROUTE_SECONDS, server="lakefs"),
)
