"""The check at the start: whatever is wrong with the address is one error with its remedy."""

from collections.abc import Mapping
from typing import final

import pytest

from perago.adapters.conductor.client import ApiClient, ApiRequest, NotConductorError
from perago.adapters.conductor.installation import ConductorTaskQueue, ConductorWorkflows
from perago.ports.errors import (
    AccessDeniedError,
    MissingError,
    OutcomeUnknownError,
    RequestRefusedError,
    UnavailableError,
)

PAGE = NotConductorError("a page of HTML answered")
RUNNING = {"workflowId": "w", "status": "RUNNING"}


@final
class Answering(ApiClient):
    """Answers by path; anything else is not Conductor's."""

    def __init__(self, answers: Mapping[str, object]) -> None:
        self._answers = answers

    @property
    def address(self) -> str:
        """Where it pretends to be."""
        return "http://conductor:8080"

    async def call(self, request: ApiRequest) -> object:
        """Return the answer, or raise it."""
        answer = self._answers.get(request.path, PAGE)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.mark.parametrize("version", ["3.32.3", "v3.21.11-rc1", 3.5])
async def test_a_version_passes(version: object) -> None:
    assert await ConductorTaskQueue(Answering({"/version": version})).check() == str(version)


@pytest.mark.parametrize(
    ("answers", "remedy"),
    [
        ({"/api/version": "3.32.3"}, r"answers at http://conductor:8080/api: use that address"),
        ({}, r"must be the one of Conductor's API, such as http://host:8080/api"),
        ({"/version": "lakeFS"}, "must be the one of Conductor's API"),
        ({"/version": None}, "must be the one of Conductor's API"),
        ({"/version": MissingError("404")}, "must be the one of Conductor's API"),
    ],
    ids=["missing /api", "wrong path", "another product", "empty answer", "404"],
)
async def test_a_wrong_address_is_one_error_with_its_remedy(
    answers: Mapping[str, object], remedy: str
) -> None:
    with pytest.raises(UnavailableError, match=remedy):
        await ConductorTaskQueue(Answering(answers)).check()


@pytest.mark.parametrize(
    "error", [UnavailableError("not sent: refused"), AccessDeniedError("401")], ids=str
)
async def test_what_has_another_cause_is_left_as_it_is(error: Exception) -> None:
    with pytest.raises(type(error)) as raised:
        await ConductorTaskQueue(Answering({"/version": error})).check()
    assert raised.value is error


async def test_a_definition_that_was_refused_with_200_is_an_error() -> None:
    answer = {"bulkErrorResults": {"w": "no tasks"}}
    workflows = ConductorWorkflows(Answering({"/metadata/workflow": answer}))
    with pytest.raises(RequestRefusedError, match="no tasks"):
        await workflows.put_definition({"name": "w"})


async def test_a_start_without_an_id_is_unknown() -> None:
    with pytest.raises(OutcomeUnknownError, match="look for the workflow"):
        await ConductorWorkflows(Answering({"/workflow": None})).start("w", {})


@pytest.mark.parametrize(
    ("found", "error"), [(RUNNING, RequestRefusedError), (MissingError("404"), MissingError)]
)
async def test_a_404_of_retry_is_a_refusal_when_the_workflow_is_there(
    found: object, error: type[Exception]
) -> None:
    answers = {"/workflow/w/retry": MissingError("still running"), "/workflow/w": found}
    with pytest.raises(error, match="still running"):
        await ConductorWorkflows(Answering(answers)).retry("w")


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ("500 The workflow w is not PAUSED so cannot resume.", RequestRefusedError),
        ("500 database is locked", OutcomeUnknownError),
    ],
)
async def test_a_500_of_resume_is_a_refusal_when_it_says_so(
    answer: str, error: type[Exception]
) -> None:
    answers = {"/workflow/w/resume": OutcomeUnknownError(answer)}
    with pytest.raises(error, match="500"):
        await ConductorWorkflows(Answering(answers)).resume("w")


async def test_an_id_that_no_workflow_can_have_is_not_sent() -> None:
    # Tomcat refuses the path with 400 before Conductor can say that there is no such workflow.
    refused = RequestRefusedError("400 HTTP Status 400 - Bad Request")
    workflows = ConductorWorkflows(Answering({"/workflow/shop%2Fmain": refused}))
    assert await workflows.read("shop/main") is None
