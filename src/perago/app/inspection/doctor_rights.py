"""What `perago doctor` tries by doing it: each right of the key, and each route of object bytes.

It writes on scratch branches and removes them. Those of a doctor that was killed are canaries by
name, which garbage collection removes after an hour.
"""

import hashlib
import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from perago.app.fence.trust import LOOKS_MAX, PAUSE_SECONDS, removed_afterwards
from perago.app.inspection import doctor
from perago.app.inspection import doctor_lakefs as of_lakefs
from perago.app.inspection.doctor_lakefs import KEY, REPOSITORY, RIGHTS, Target
from perago.domain.commit_metadata import EXPECTED_HEAD
from perago.domain.errors import PublicationRefusedError
from perago.domain.lakefs import BranchName, CommitId, TagName
from perago.domain.names import canary_branches, relocated_tag
from perago.domain.outcome import Merged, NoAnswer, NotPublished, Relocated
from perago.domain.settled import after_merge
from perago.ports import errors
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
# lakeFS needs some seconds to enforce the protection rule that the check of the fence tries.
FENCE_SECONDS = doctor.CHECK_SECONDS + LOOKS_MAX * PAUSE_SECONDS
# lakeFS names the address that its block store's library asked.
_ADDRESS = re.compile(r"https?://[^/\s\"]+")


@dataclass(frozen=True, slots=True)
class _Right:
    """What a key may do, in words and as lakeFS calls it; `why` where not every worker needs it."""

    words: str
    action: str
    use: Callable[[], Awaitable[object]]
    why: str = ""


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

    def steps(self) -> Sequence[_Right]:
        """Each right, in an order in which it can be tried."""
        objects, tags = self.lakefs.objects, self.lakefs.tags
        repository, written, tag = self.target.repository, self.written, self.tag
        at, head, upload = (repository, written), self.target.head, ObjectUpload(PATH, self.file)
        return (
            _Right("create a branch", "fs:CreateBranch", self._create),
            _Right("write an object", "fs:WriteObject", lambda: objects.upload(*at, upload)),
            _Right("list objects", "fs:ListObjects", lambda: objects.list_page(*at, prefix=PATH)),
            _Right("read an object", "fs:ReadObject", lambda: objects.read(*at, PATH)),
            _Right("commit", "fs:CreateCommit", self._commit),
            _Right("merge", "fs:CreateCommit", self._merge),
            _Right("delete an object", "fs:DeleteObject", lambda: objects.delete_many(*at, [PATH])),
            _Right("create a tag", "fs:CreateTag", lambda: tags.create(repository, tag, head)),
            _Right(
                "delete a tag",
                "fs:DeleteTag",
                lambda: tags.delete(repository, tag),
                "garbage collection needs it",
            ),
            _Right("reset a branch", "fs:RevertBranch", self._reset, "policy head-parent needs it"),
            _Right("delete a branch", "fs:DeleteBranch", self._delete),
        )

    async def _create(self) -> None:
        for name in (self.merged, self.written):
            at = self.target.repository, name, self.target.head
            await self.lakefs.branches.create(*at, hidden=True)  # as those of attempts

    async def _commit(self) -> None:
        request = CommitRequest(self.target.repository, self.written, "perago doctor", {})
        self.staged = await self.lakefs.commits.commit(request)

    async def _merge(self) -> None:
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
            raise errors.UnavailableError(answer.text)
        if not isinstance(answer, Merged):
            after = after_merge(answer)
            code = (
                after.code if isinstance(after, NotPublished) else errors.RequestRefusedError.code
            )
            raise _denied_or(PublicationRefusedError(answer.text, code=code))

    async def _reset(self) -> None:
        """As policy head-parent replaces an abandoned publication."""
        at = self.target.repository, self.merged, self.target.head
        answer = await self.lakefs.branches.relocate(*at)
        if not isinstance(answer, Relocated):
            raise _denied_or(errors.RequestRefusedError(answer.text))

    async def _delete(self) -> None:
        for name in (self.merged, self.written):
            await self.lakefs.branches.delete(self.target.repository, name)


def _denied_or(error: Exception) -> Exception:
    """A refusal that is an answer, as one of the key if that is why."""
    is_denied = str(error).startswith(("status 401", "status 403"))
    return errors.AccessDeniedError(str(error)) if is_denied else error


async def rights(subject: doctor.Subject) -> AsyncIterator[doctor.Finding]:
    """Every right that an attempt takes, tried in turn."""
    async with subject.lakefs() as lakefs:
        target = await of_lakefs.target_of(subject, lakefs)
        tag = relocated_tag(target.head, subject.identities.new_execution_id())
        with TemporaryDirectory(prefix="perago-doctor-") as directory:
            file = Path(directory) / PATH
            file.write_bytes(PATH.encode())
            names = canary_branches(subject.identities.new_execution_id())
            async with removed_afterwards(lakefs.branches, target.repository, *names):
                trial = _Trial(lakefs, target, *names, tag, file)
                try:
                    async for finding in _tried(subject, trial):
                        yield finding
                finally:
                    with suppress(errors.ServiceError):
                        await lakefs.tags.delete(target.repository, tag)


async def _tried(subject: doctor.Subject, trial: _Trial) -> AsyncIterator[doctor.Finding]:
    """What the key may, and may not."""
    target, may, is_denied = trial.target, list[str](), False
    for right in trial.steps():
        try:
            await right.use()
            may.append(right.words)
        except errors.AccessDeniedError as error:
            is_denied = True
            yield _denied(target, right, error)
        except (PublicationRefusedError, errors.ServiceError) as error:
            # Without an earlier right the branch or object for this one is not there.
            if not is_denied:
                yield _failed(subject, target, error)
                return
    yield doctor.ok(f"in {target.repository} the key may {', '.join(may) or 'nothing of this'}")


def _denied(target: Target, right: _Right, error: errors.AccessDeniedError) -> doctor.Finding:
    text = f"in {target.repository} the key may not {right.words} ({right.action}): {error}"
    remedy = f"{of_lakefs.KEY_REMEDY}; or let the policies of its user allow it"
    if right.why:
        return doctor.Finding(doctor.Status.WARNING, f"{text}; {right.why}", remedy, error.code)
    return doctor.Finding(doctor.Status.FAILURE, text, remedy, error.code)


async def routes(subject: doctor.Subject) -> AsyncIterator[doctor.Finding]:
    """Five MiB up and down on each route that this lakeFS has."""
    async with subject.lakefs() as lakefs:
        target = await of_lakefs.target_of(subject, lakefs)
        signs = (await of_lakefs.server_of(lakefs).facts()).signs
    try:
        yield doctor.ok(await _moved(subject, target, "api"))
        through = True
    except errors.ServiceError as error:
        yield _failed(subject, target, error)
        through = False
    if not signs or subject.settings.transfer_route == "api":
        return
    try:
        yield doctor.ok(await _moved(subject, target, "presigned"))
    except errors.ServiceError as error:
        yield _unreachable(subject, error, through=through)


def _failed(
    subject: doctor.Subject, target: Target, error: PublicationRefusedError | errors.ServiceError
) -> doctor.Finding:
    """A request through lakeFS; what its block store said is in the answer of lakeFS."""
    # What became of a request does not matter here, because its branch is removed.
    code = errors.UnavailableError.code if errors.is_away(error) else error.code
    remedy = doctor.remedy_of(code, {**target.names, "URL": subject.lakefs_connection.url})
    if store := _ADDRESS.search(str(error)):
        remedy = f"`curl -sS {store[0]}` shows whether the block store of lakeFS answers; start it"
    return doctor.Finding(doctor.Status.FAILURE, str(error), remedy, code)


def _unreachable(
    subject: doctor.Subject, error: errors.ServiceError, *, through: bool
) -> doctor.Finding:
    """The block store did not take it from this machine."""
    only_way = subject.settings.transfer_route == "presigned" or not through
    remedy = doctor.remedy_of(error.code, {"URL": subject.lakefs_connection.url})
    if through:
        remedy = "`export PERAGO_TRANSFER_ROUTE=api`: through lakeFS 5 MiB did move"
    return doctor.Finding(
        doctor.Status.FAILURE if only_way else doctor.Status.WARNING,
        f"by signed addresses of the block store: {error}",
        remedy,
        error.code,
    )


async def _moved(subject: doctor.Subject, target: Target, route: str) -> str:
    """How long a file took on a route, both ways."""
    connection = replace(subject.lakefs_connection, route=route)
    monotonic, content = subject.clock.monotonic, secrets.token_bytes(ROUTE_BYTES)
    name, _ = canary_branches(subject.identities.new_execution_id())
    with TemporaryDirectory(prefix="perago-doctor-") as directory:
        up, down = Path(directory) / "up", Path(directory) / "down"
        up.write_bytes(content)
        async with (
            subject.lakefs(connection) as lakefs,
            removed_afterwards(lakefs.branches, target.repository, name),
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


# From what everything there needs to what one publication needs.
LAKEFS_CHECKS = (
    # Three tries where the first one fails: as it is, without the proxy, without the path.
    doctor.Check(
        of_lakefs.ADDRESS, of_lakefs.address, seconds=4 * doctor.ANSWER_SECONDS, server="lakefs"
    ),
    doctor.Check(KEY, of_lakefs.key, (of_lakefs.ADDRESS,), server="lakefs"),
    doctor.Check(of_lakefs.CLOCKS, of_lakefs.clocks, (of_lakefs.ADDRESS,), server="lakefs"),
    doctor.Check(REPOSITORY, of_lakefs.repository, (KEY,), server="lakefs"),
    doctor.Check(RIGHTS, rights, (REPOSITORY, KEY), server="lakefs"),
    doctor.Check(
        of_lakefs.FENCE, of_lakefs.fence, (REPOSITORY, RIGHTS), FENCE_SECONDS, server="lakefs"
    ),
    doctor.Check(of_lakefs.BRANCH, of_lakefs.branch, (REPOSITORY,), server="lakefs"),
    doctor.Check(ROUTES, routes, (REPOSITORY, RIGHTS), ROUTE_SECONDS, server="lakefs"),
)
