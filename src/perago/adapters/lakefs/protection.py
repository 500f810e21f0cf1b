"""Branch protection of lakeFS: which names a rule covers, and one rule more or less.

The server takes all rules of a repository at once, and only if they are still those that were read.
"""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, TypeAlias

from perago.adapters.lakefs.answers import Failure, Operation, Refused, port_error
from perago.adapters.lakefs.client import JSON_BYTES_MAX, ApiRequest, LakeFSClient, read_answer
from perago.domain.lakefs import BranchName, RepositoryId
from perago.ports.errors import UnavailableError

# Whole, with what a later release may say in it besides the pattern: it is written back.
Rule: TypeAlias = dict[str, Any]
Rules: TypeAlias = list[Rule]

# Branches have letters, digits, `-` and `_`: an escaped brace or comma would match none of them.
_BRACES = re.compile(r"\{([^{}]*)\}")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)

_TRIES_MAX = 5  # people change the rules of one repository hardly ever
_CHANGED_MEANWHILE = 412  # If-Match: another writer has changed the rules since they were read


def covers(pattern: str, branch: str) -> bool:
    """Whether a protection pattern with `*`, `?`, `[a-z]`, `[!a]` and `{a,b}` matches a whole name.

    The server's globs, read as it reads them.
    """
    braces = _BRACES.search(pattern)
    if braces is None:
        return fnmatchcase(branch, _ESCAPED.sub(r"[\1]", pattern))
    before, behind = pattern[: braces.start()], pattern[braces.end() :]
    return any(covers(f"{before}{choice}{behind}", branch) for choice in braces[1].split(","))


class BranchProtection:
    """The part of a port of branches that reads and changes their protection."""

    _client: LakeFSClient

    async def is_protected(self, repository: RepositoryId, branch: BranchName) -> bool:
        rules = await self._client.ask(_reading(repository), _request(repository), _rules_of)
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

        await self._change(repository, added)

    async def unprotect(self, repository: RepositoryId, pattern: str) -> None:
        await self._change(
            repository, lambda rules: [rule for rule in rules if rule["pattern"] != pattern]
        )

    async def _change(self, repository: RepositoryId, changed: Callable[[Rules], Rules]) -> None:
        client, request = self._client, _request(repository)
        changing = Operation("change branch protection of", repository, writes=True)
        for _ in range(_TRIES_MAX):
            read = partial(_rules_and_tag, client, request)
            rules, tag = await client.run(client.repeat(_reading(repository), read))
            wanted = changed(rules)
            if wanted == rules:
                return
            # Before the first rule of a repository there is no tag, and an empty one is refused.
            headers = {"If-Match": tag} if tag else {}
            writing = replace(request, method="PUT", content=wanted, headers=headers)
            answer = await client.attempt(writing, bytes)
            if not isinstance(answer, Failure):
                return
            if not isinstance(answer, Refused) or answer.status != _CHANGED_MEANWHILE:
                raise port_error(changing, answer)
        raise UnavailableError(f"branch protection of {repository} changes all the time; try again")


async def _rules_and_tag(client: LakeFSClient, request: ApiRequest) -> tuple[Rules, str]:
    async with client.exchange(request) as reply:
        rules = read_answer(await reply.read(JSON_BYTES_MAX), _rules_of)
        return rules, reply.headers.get("ETag", "")


def _reading(repository: RepositoryId) -> Operation:
    return Operation("read branch protection of", repository)


def _request(repository: RepositoryId) -> ApiRequest:
    return ApiRequest("GET", ("repositories", repository, "settings", "branch_protection"))


def _rules_of(body: bytes) -> Rules:
    return [{**rule, "pattern": str(rule["pattern"])} for rule in json.loads(body)]
