"""One lakeFS as the container takes it: its ports over one client, one request a question.

Spells out every option of an effect. What an answer means is in `answers`; what a tag decides and
what a walk is for, the domain knows. `covers` reads a pattern of branch protection as lakeFS does.
"""

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from fnmatch import fnmatchcase
from http import HTTPStatus
from typing import Any, TypeAlias, TypeVar, final

from perago.adapters.http import time_of
from perago.adapters.lakefs import answers
from perago.adapters.lakefs.answers import Failure, Operation, Refused
from perago.adapters.lakefs.client import (
    JSON_BYTES_MAX,
    ApiRequest,
    FailedRequestError,
    LakeFSClient,
    at_branch,
    at_ref,
    read_answer,
)
from perago.adapters.lakefs.configuration import LakeFSAddressError, LakeFSConfiguration
from perago.adapters.lakefs.objects import LakeFSObjects
from perago.domain.lakefs import (
    BranchName,
    CommitId,
    CommitRecord,
    FirstParentWalk,
    RepositoryId,
    TagName,
)
from perago.domain.outcome import MergeAnswer, Merged, NoAnswer, Relocated, RelocationAnswer
from perago.ports import errors, lakefs
from perago.ports.installations import LakeFSInstallation, Server, ServerFacts
from perago.ports.objects import Page

# A rule of branch protection: whole, with what a later release may say in it besides the pattern,
# because it is written back.
Rule: TypeAlias = dict[str, Any]
Rules: TypeAlias = list[Rule]
Record = TypeVar("Record")
RULE_TRIES_MAX = 5  # people change the rules of one repository hardly ever
# Branches have letters, digits, `-` and `_`: an escaped brace or comma would match none of them.
_BRACES = re.compile(r"\{([^{}]*)\}")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def open_lakefs(configuration: LakeFSConfiguration) -> LakeFSInstallation:
    """The ports of one lakeFS; nothing is asked of it yet."""
    client = LakeFSClient(configuration)
    objects = LakeFSObjects(client)

    async def close() -> None:
        client.close()

    return LakeFSInstallation(
        branches=LakeFSBranches(client),
        commits=LakeFSCommits(client),
        tags=LakeFSTags(client),
        objects=objects,
        repositories=LakeFSRepositories(client),
        transport=lambda _concurrency: objects,
        server=LakeFSServer(client),
        close=close,
    )


def _page(prefix: str, after: str, amount: int) -> dict[str, str]:
    return {"prefix": prefix, "after": after, "amount": str(amount)}


class _OverLakeFS:
    """Asks one lakeFS."""

    def __init__(self, client: LakeFSClient) -> None:
        self._client = client

    async def _refs(
        self,
        repository: str,
        kind: str,
        page: Mapping[str, str],
        record: Callable[[Any, CommitId], Record],
    ) -> Page[Record]:
        """One page of names, each with its commit."""
        return await self._client.ask(
            Operation(f"list {kind} of", repository),
            ApiRequest("GET", ("repositories", repository, kind), page),
            answers.page_of(lambda ref: record(ref["id"], CommitId(ref["commit_id"])), "id"),
        )


@final
class LakeFSBranches(_OverLakeFS, lakefs.Branches):
    """Branches of one lakeFS installation."""

    async def head(self, repository: RepositoryId, branch: BranchName) -> CommitRecord:
        what = f"{repository}/{branch}"
        operation = Operation("read the head of", what, missing=errors.BranchMissingError)
        # The log answers with parents and metadata, the branch itself only with an id. Without
        # the `@` a tag of this name would do, and so would a commit whose id begins like it.
        request = ApiRequest("GET", at_ref(repository, f"{branch}@", "commits"), {"amount": "1"})
        read = answers.page_of_commits
        return await self._client.ask(operation, request, lambda body: read(body).items[0])

    async def create(
        self,
        repository: RepositoryId,
        branch: BranchName,
        source: CommitId,
        *,
        hidden: bool = False,
    ) -> None:
        what = f"{repository}/{branch}"
        operation = Operation("create branch", what, writes=True, taken=errors.BranchExistsError)
        content = {"name": branch, "source": source, "force": False, "hidden": hidden}
        request = ApiRequest("POST", ("repositories", repository, "branches"), content=content)
        await self._client.ask(operation, request, bytes)

    async def delete(self, repository: RepositoryId, branch: BranchName) -> None:
        what = f"{repository}/{branch}"
        operation = Operation("delete branch", what, writes=True, missing=errors.BranchMissingError)
        request = ApiRequest("DELETE", at_branch(repository, branch), {"force": "false"})
        with suppress(errors.BranchMissingError):  # law: deleting twice is no error
            await self._client.ask(operation, request, bytes)

    async def list_page(
        self,
        repository: RepositoryId,
        prefix: str,
        after: str = "",
        amount: int = 1000,
        *,
        show_hidden: bool = False,
    ) -> Page[lakefs.BranchRecord]:
        page = _page(prefix, after, amount)
        if show_hidden:
            page["show_hidden"] = "true"
        return await self._refs(repository, "branches", page, lakefs.BranchRecord)

    async def merge(self, request: lakefs.MergeRequest) -> MergeAnswer:
        target = f"{request.source} into {request.repository}/{request.target}"
        operation = Operation("merge", target, writes=True)
        answer = await self._client.attempt(
            ApiRequest(
                "POST",
                at_ref(request.repository, request.source, "merge", request.target),
                content={
                    "message": request.message,
                    "metadata": dict(request.metadata),
                    "squash_merge": request.squash,
                    "allow_empty": request.allow_empty,
                    "force": False,
                },
                seconds=request.timeout_seconds,
            ),
            lambda body: str(json.loads(body)["reference"]),
        )
        if isinstance(answer, Failure):
            return answers.merge_answer(operation, answer)
        return Merged(CommitId(answer)) if answer else NoAnswer("status 200 without a commit")

    async def relocate(
        self,
        repository: RepositoryId,
        branch: BranchName,
        to: CommitId,
        *,
        timeout_seconds: float = 60.0,
    ) -> RelocationAnswer:
        operation = Operation("relocate", f"{repository}/{branch} to {to}", writes=True)
        path = at_branch(repository, branch, "hard_reset")
        query = {"ref": to, "force": "false"}
        answer = await self._client.attempt(
            ApiRequest("PUT", path, query, seconds=timeout_seconds), bytes
        )
        if isinstance(answer, Failure):
            return answers.relocation_answer(operation, answer)
        return Relocated()

    async def is_protected(self, repository: RepositoryId, branch: BranchName) -> bool:
        operation, request = _reading_rules(repository)
        rules = await self._client.ask(operation, request, _rules_of)
        return any(covers(rule["pattern"], branch) for rule in rules)

    async def protect(
        self, repository: RepositoryId, pattern: str, *, like: BranchName | None = None
    ) -> None:
        """Add a rule, as the one that covers `like`; a rule of this pattern stays as it is."""

        def added(rules: Rules) -> Rules:
            if any(rule["pattern"] == pattern for rule in rules):
                return rules
            models = (rule for rule in rules if like is not None and covers(rule["pattern"], like))
            return [*rules, {**next(models, Rule()), "pattern": pattern}]

        await self._change_rules(repository, added)

    async def unprotect(self, repository: RepositoryId, pattern: str) -> None:
        await self._change_rules(
            repository, lambda rules: [rule for rule in rules if rule["pattern"] != pattern]
        )

    async def _change_rules(
        self, repository: RepositoryId, changed: Callable[[Rules], Rules]
    ) -> None:
        """The server takes all rules at once, and only if they are still those that were read."""
        reading, request = _reading_rules(repository)
        changing = Operation("change branch protection of", repository, writes=True)

        async def read() -> tuple[Rules, str]:
            async with self._client.exchange(request) as reply:
                rules = read_answer(await reply.read(JSON_BYTES_MAX), _rules_of)
                return rules, reply.headers.get("ETag", "")

        for _ in range(RULE_TRIES_MAX):
            rules, tag = await self._client.run(self._client.repeat(reading, read))
            wanted = changed(rules)
            if wanted == rules:
                return
            # Before the first rule of a repository there is no tag, and an empty one is refused.
            headers = {"If-Match": tag} if tag else {}
            writing = replace(request, method="PUT", content=wanted, headers=headers)
            answer = await self._client.attempt(writing, bytes)
            if not isinstance(answer, Failure):
                return
            if not isinstance(answer, Refused) or answer.status != HTTPStatus.PRECONDITION_FAILED:
                raise answers.port_error(changing, answer)
        raise errors.UnavailableError(
            f"branch protection of {repository} changes all the time; try again"
        )


def _reading_rules(repository: RepositoryId) -> tuple[Operation, ApiRequest]:
    path = ("repositories", repository, "settings", "branch_protection")
    return Operation("read branch protection of", repository), ApiRequest("GET", path)


def _rules_of(body: bytes) -> Rules:
    return [{**rule, "pattern": str(rule["pattern"])} for rule in json.loads(body)]


def covers(pattern: str, branch: str) -> bool:
    """Whether a protection pattern with `*`, `?`, `[a-z]`, `[!a]` and `{a,b}` matches a whole name.

    The server's globs, read as it reads them.
    """
    braces = _BRACES.search(pattern)
    if braces is None:
        return fnmatchcase(branch, _ESCAPED.sub(r"[\1]", pattern))
    before, behind = pattern[: braces.start()], pattern[braces.end() :]
    return any(covers(f"{before}{choice}{behind}", branch) for choice in braces[1].split(","))


@final
class LakeFSTags(_OverLakeFS, lakefs.Tags):
    """Tags of one lakeFS installation."""

    async def create(self, repository: RepositoryId, tag: TagName, commit: CommitId) -> None:
        what = f"{repository}/{tag}"
        operation = Operation("create tag", what, writes=True, taken=errors.TagExistsError)
        content = {"id": tag, "ref": commit, "force": False}
        request = ApiRequest("POST", ("repositories", repository, "tags"), content=content)
        await self._client.ask(operation, request, bytes)

    async def read(self, repository: RepositoryId, tag: TagName) -> CommitId | None:
        try:
            return await self._client.ask(
                Operation("read tag", f"{repository}/{tag}"),
                ApiRequest("GET", ("repositories", repository, "tags", tag)),
                lambda body: CommitId(json.loads(body)["commit_id"]),
            )
        except errors.ReferenceMissingError:
            return None

    async def list_page(
        self, repository: RepositoryId, prefix: str, after: str = "", amount: int = 1000
    ) -> Page[lakefs.TagRecord]:
        page = _page(prefix, after, amount)
        return await self._refs(repository, "tags", page, lakefs.TagRecord)

    async def delete(self, repository: RepositoryId, tag: TagName) -> None:
        operation = Operation("delete tag", f"{repository}/{tag}", writes=True)
        path = ("repositories", repository, "tags", tag)
        with suppress(errors.ReferenceMissingError):  # law: deleting twice is no error
            await self._client.ask(operation, ApiRequest("DELETE", path, {"force": "false"}), bytes)


@final
class LakeFSCommits(_OverLakeFS, lakefs.Commits):
    """Commits of one lakeFS installation; a walk reads `walk_page` commits a request."""

    walk_page = 1000  # the most that the server takes

    async def read(self, repository: RepositoryId, ref: str) -> CommitRecord:
        return await self._client.ask(
            Operation("read commit", f"{repository}/{ref}"),
            ApiRequest("GET", ("repositories", repository, "commits", ref)),
            lambda body: answers.commit_record(json.loads(body)),
        )

    async def first_parents(
        self, repository: RepositoryId, start: str, stop_at: CommitId | None, *, commits_max: int
    ) -> FirstParentWalk:
        what = f"{repository}/{start} down to {stop_at or 'the root'}"
        operation = Operation("walk first parents", what)
        query = {"first_parent": "true", **({} if stop_at is None else {"stop_at": stop_at})}
        records: list[CommitRecord] = []
        while True:
            query["amount"] = str(min(self.walk_page, commits_max - len(records)))
            request = ApiRequest("GET", at_ref(repository, start, "commits"), query)
            page = await self._client.ask(operation, request, answers.page_of_commits)
            records.extend(page.items)
            if records[-1].commit == stop_at:
                return FirstParentWalk(tuple(records), reached=True)
            if not page.more:
                return FirstParentWalk(tuple(records), reached=False)
            if len(records) >= commits_max:
                return FirstParentWalk(tuple(records), reached=False, truncated=True)
            # From the last commit, not from the branch: that may point elsewhere by now, and the
            # server would walk down the pages already read once more.
            start = query["after"] = page.last

    async def commit(self, request: lakefs.CommitRequest) -> CommitId:
        what = f"{request.repository}/{request.branch}"
        metarange = request.source_metarange
        return await self._client.ask(
            Operation("commit on", what, writes=True, missing=errors.BranchMissingError),
            ApiRequest(
                "POST",
                at_branch(request.repository, request.branch, "commits"),
                {} if metarange is None else {"source_metarange": metarange},
                {
                    "message": request.message,
                    "metadata": dict(request.metadata),
                    "allow_empty": request.allow_empty,
                    "force": False,
                },
            ),
            lambda body: CommitId(json.loads(body)["id"]),
        )

    async def diff_page(
        self,
        repository: RepositoryId,
        left: CommitId,
        right: CommitId,
        *,
        prefix: str,
        after: str = "",
        amount: int = 1000,
    ) -> Page[lakefs.Change]:
        query = {
            # Two dots: the trees as they are. The default asks what a merge would bring.
            "type": "two_dot",
            "include_right_stats": "true",
            **_page(prefix, after, amount),
        }
        operation = Operation("compare", f"{repository}/{left} with {right}")
        request = ApiRequest("GET", at_ref(repository, left, "diff", right), query)
        return await self._client.ask(operation, request, answers.page_of_changes)

    async def uncommitted_page(
        self,
        repository: RepositoryId,
        branch: BranchName,
        *,
        prefix: str = "",
        after: str = "",
        amount: int = 1000,
    ) -> Page[lakefs.Change]:
        what = f"{repository}/{branch}"
        query = _page(prefix, after, amount)
        operation = Operation(
            "list uncommitted objects of", what, missing=errors.BranchMissingError
        )
        request = ApiRequest("GET", at_branch(repository, branch, "diff"), query)
        return await self._client.ask(operation, request, answers.page_of_changes)


@final
class LakeFSRepositories(_OverLakeFS, lakefs.Repositories):
    """Repositories of one lakeFS installation."""

    async def read(self, repository: RepositoryId) -> lakefs.RepositoryFacts:
        return await self._client.ask(
            Operation("read repository", repository, missing=errors.RepositoryMissingError),
            ApiRequest("GET", ("repositories", repository)),
            answers.repository_facts,
        )

    async def list_page(self, after: str = "", amount: int = 1000) -> Page[RepositoryId]:
        request = ApiRequest("GET", ("repositories",), {"after": after, "amount": str(amount)})
        read = answers.page_of(lambda found: RepositoryId(found["id"]), "id")
        return await self._client.ask(Operation("list repositories", ""), request, read)


@final
class LakeFSServer(_OverLakeFS, Server):
    """One lakeFS installation itself."""

    async def greet(self) -> datetime | None:
        return await self._client.run(self._greet())

    async def _greet(self) -> datetime | None:
        """The health check: an answer without content, which no web page and no login gives."""
        try:
            async with self._client.exchange(ApiRequest("GET", ("healthcheck",))) as reply:
                if reply.status == HTTPStatus.NO_CONTENT:
                    return time_of(reply.headers)
                kind = reply.headers.get("content-type", "nothing known")
                found = f"GET /healthcheck is answered with {reply.status} and {kind}"
        except FailedRequestError as error:
            match error.failure:
                case Refused(status, text):
                    found = f"GET /healthcheck is answered with {status} {text}"
                case answers.NotLakeFS(text):
                    found = f"GET /healthcheck is answered with {text}"
                case failure:
                    operation = Operation("reach", self._client.address)
                    raise answers.port_error(operation, failure) from error
        raise LakeFSAddressError(self._client.address, found)

    async def facts(self) -> ServerFacts:
        user = await self._client.ask(
            Operation("ask for", "the user of the key"),
            ApiRequest("GET", ("user",)),
            lambda body: str(json.loads(body)["user"]["id"]),
        )
        try:
            return await self._client.ask(
                Operation("ask for", "the version"),
                ApiRequest("GET", ("config",)),
                lambda body: answers.server_facts(body, user),
            )
        except errors.AccessDeniedError:  # that needs a right of its own, and no worker needs it
            return ServerFacts(user=user)
