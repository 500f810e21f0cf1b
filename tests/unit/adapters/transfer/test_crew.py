"""Jobs in threads: results in order, tries, giving up, and the server that asks for less."""

import threading
from collections.abc import Callable
from functools import partial
from itertools import count

import pytest

from perago.adapters.transfer.configuration import TransferConfiguration
from perago.adapters.transfer.crew import Crew, Job
from perago.adapters.transfer.failures import (
    AnsweredError,
    BrokenError,
    read_failure,
    write_failure,
)
from perago.ports.errors import (
    LocalDiskError,
    ObjectMissingError,
    OutcomeUnknownError,
    UnavailableError,
)


def crew(tries_max: int = 4) -> Crew:
    return Crew(
        TransferConfiguration(
            endpoint_url="http://lakefs.example",
            access_key_id="id",
            secret_access_key="secret",
            tries_max=tries_max,
            first_pause_seconds=0.001,
            pause_seconds_max=0.002,
        )
    )


def read_job(do: Callable[[], int]) -> Job[int]:
    return Job(do, 1, lambda failure: read_failure("x", failure))


def failing(times: int, failure: Exception) -> Callable[[], int]:
    """A job that fails some times, then gives how often it was tried."""
    tries = count(1)

    def do() -> int:
        tried = next(tries)
        if tried <= times:
            raise failure
        return tried

    return do


def test_results_come_in_the_order_of_the_jobs() -> None:
    jobs = [read_job(partial(int, number)) for number in range(500)]
    assert crew().run(jobs) == list(range(500))
    assert crew().run([]) == []


@pytest.mark.parametrize(
    "failure",
    [AnsweredError(503, b""), AnsweredError(429, b""), AnsweredError(500, b""), BrokenError("cut")],
    ids=["503", "429", "500", "broken"],
)
def test_what_may_pass_is_tried_again(failure: Exception) -> None:
    assert crew().run([read_job(failing(3, failure))]) == [4]
    with pytest.raises(UnavailableError):
        crew().run([read_job(failing(4, failure))])


def test_what_will_not_pass_is_tried_once() -> None:
    do = failing(1, AnsweredError(404, b'{"message": "not found"}'))
    with pytest.raises(ObjectMissingError):
        crew().run([read_job(do)])
    assert do() == 2


def test_a_write_without_an_answer_is_unknown() -> None:
    job = Job(failing(9, BrokenError("cut")), 1, lambda failure: write_failure("x", failure))
    with pytest.raises(OutcomeUnknownError):
        crew().run([job])


def test_a_write_that_was_never_sent_is_not_unknown() -> None:
    job = Job(
        failing(9, BrokenError("refused", sent=False)),
        1,
        lambda failure: write_failure("x", failure),
    )
    with pytest.raises(UnavailableError):
        crew().run([job])


def test_throttling_lowers_the_limit() -> None:
    busy = crew(tries_max=2)
    before = busy.limit
    busy.run([read_job(failing(1, AnsweredError(503, b"")))])
    assert busy.limit < before


def test_after_a_failure_nobody_takes_another_job() -> None:
    done: list[int] = []

    def fail() -> int:
        raise LocalDiskError("full")

    def work() -> int:
        done.append(1)
        return 1

    jobs = [read_job(fail), *(read_job(work) for _ in range(10_000))]
    with pytest.raises(LocalDiskError):
        crew().run(jobs)
    assert len(done) < len(jobs) - 1
    assert not [thread for thread in threading.enumerate() if thread.name == "perago-transfer"]
