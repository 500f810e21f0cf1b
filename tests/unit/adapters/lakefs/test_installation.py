"""Branch protection: patterns as the server reads them, and rules that others change meanwhile."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, cast

import pytest

from perago.adapters.lakefs.answers import Refused
from perago.adapters.lakefs.client import ApiRequest, LakeFSClient
from perago.adapters.lakefs.installation import RULE_TRIES_MAX, LakeFSBranches, covers
from perago.domain.lakefs import BranchName, RepositoryId
from perago.ports.errors import RequestRefusedError, ServiceError, UnavailableError

REPOSITORY, MINE = RepositoryId("songs"), BranchName("mine")


@pytest.mark.parametrize(
    ("pattern", "branch", "covered"),
    [
        ("main", "main", True),
        ("main", "main2", False),
        ("main", "a-main", False),
        ("*", "anything", True),
        ("stable_*", "stable_1-2", True),
        ("stable_*", "stable", False),
        ("v?", "v1", True),
        ("v?", "v12", False),
        ("v[0-9]", "v7", True),
        ("v[!0-9]", "v7", False),
        ("{main,prod}", "prod", True),
        ("{main,prod}", "main,prod", False),
        ("{main,v*}-x", "v1-x", True),
        ("a.c", "abc", False),
        ("a(b", "a(b", True),
        ("a,b", "a,b", True),
        (r"\*", "x", False),
        ("v[9-0]", "v1", False),
        ("{main", "main", False),
    ],
)
def test_every_pattern(pattern: str, branch: str, covered: bool) -> None:  # noqa: FBT001 - a column
    assert covers(pattern, branch) is covered


class Rules:
    """A client of a repository whose rules others change between reading and writing them."""

    def __init__(self, races: int, refusal: HTTPStatus = HTTPStatus.PRECONDITION_FAILED) -> None:
        self.rules: list[dict[str, Any]] = [{"pattern": "m*", "blocked_actions": ["commit"]}]
        self.races = races
        self.refusal = refusal
        self.writes = 0
        self.headers: dict[str, str] = {}

    async def run(self, work: Awaitable[Any]) -> Any:  # noqa: ANN401 - whatever the work gives
        """At once, without a loop of its own."""
        return await work

    async def repeat(self, _operation: object, attempt: Callable[[], Awaitable[Any]]) -> Any:  # noqa: ANN401 - as above
        """Once is enough here."""
        return await attempt()

    @asynccontextmanager
    async def exchange(self, _request: ApiRequest) -> "AsyncGenerator[Rules]":
        """It answers itself."""
        yield self

    async def read(self, _size_max: int) -> bytes:
        """The rules; behind them another writer adds one, as long as there are races."""
        body = json.dumps(self.rules).encode()
        self.headers = {"ETag": f"of {len(self.rules)}"}
        if self.races > 0:
            self.races -= 1
            self.rules.append({"pattern": f"other-{self.races}"})
        return body

    async def attempt(self, request: ApiRequest, _read: object) -> Refused | bytes:
        """Take rules that were made from the newest ones."""
        self.writes += 1
        if request.headers != {"If-Match": f"of {len(self.rules)}"}:
            return Refused(self.refusal, "the rules have changed")
        self.rules = cast("list[dict[str, Any]]", request.content)
        return b""


def branches_of(rules: Rules) -> LakeFSBranches:
    return LakeFSBranches(cast("LakeFSClient", rules))


async def test_a_rule_is_added_to_those_that_others_write_meanwhile() -> None:
    rules = Rules(races=2)
    await branches_of(rules).protect(REPOSITORY, "canary", like=MINE)
    assert [rule["pattern"] for rule in rules.rules] == ["m*", "other-1", "other-0", "canary"]
    assert rules.rules[-1] == {"pattern": "canary", "blocked_actions": ["commit"]}
    await branches_of(rules).unprotect(REPOSITORY, "canary")
    assert [rule["pattern"] for rule in rules.rules] == ["m*", "other-1", "other-0"]


@pytest.mark.parametrize(
    ("refusal", "error", "text", "writes"),
    [
        (HTTPStatus.PRECONDITION_FAILED, UnavailableError, "changes all the time", RULE_TRIES_MAX),
        (HTTPStatus.BAD_REQUEST, RequestRefusedError, "the rules have changed", 1),
    ],
    ids=["changed meanwhile", "refused"],
)
async def test_rules_that_cannot_be_changed_are_not_tried_for_ever(
    refusal: HTTPStatus, error: type[ServiceError], text: str, writes: int
) -> None:
    rules = Rules(races=RULE_TRIES_MAX, refusal=refusal)
    with pytest.raises(error, match=text):
        await branches_of(rules).protect(REPOSITORY, "canary")
    assert rules.writes == writes
