"""What a body learns of its attempt, in a worker and outside of one."""

import logging
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from perago.app.authoring.current_attempt import (
    CancelSignal,
    CurrentAttempt,
    current_attempt,
    running,
)


def test_outside_a_worker_a_stand_in_answers() -> None:
    attempt = current_attempt()
    assert (attempt.workflow_id, attempt.retry_count) == ("local", 0)
    assert not attempt.cancel.is_set()
    assert not attempt.cancel.wait(0)


def test_inside_the_block_the_attempt_is_the_current_one() -> None:
    attempt = CurrentAttempt(task_id="t1", retry_count=2)
    with running(attempt):
        assert current_attempt() is attempt
    assert current_attempt() is not attempt


def test_a_cancelled_body_sees_it_at_once() -> None:
    signal = CancelSignal()
    with running(CurrentAttempt(cancel=signal)):
        signal.set()
        assert current_attempt().cancel.is_set()
        assert current_attempt().cancel.wait(60)


def test_progress_goes_where_the_worker_says() -> None:
    said: list[tuple[str, Mapping[str, object]]] = []
    with running(CurrentAttempt(report=lambda text, facts: said.append((text, facts)))):
        current_attempt().progress("half", rows=5)
    assert said == [("half", {"rows": 5})]


def test_log_records_carry_the_ids(caplog: pytest.LogCaptureFixture) -> None:
    attempt = CurrentAttempt(workflow_id="w", task_id="t", execution_id="e", retry_count=1)
    with caplog.at_level(logging.INFO):
        attempt.logger.info("said")
        attempt.progress("half", rows=5)
    said, progress = caplog.records
    ids = {name: vars(said)[name] for name in ("workflow_id", "task_id", "execution_id")}
    assert ids == {"workflow_id": "w", "task_id": "t", "execution_id": "e"}
    assert vars(progress)["progress"] == {"rows": 5}


def seen_by_a_thread() -> CurrentAttempt:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(current_attempt).result()


def test_threads_of_a_body_are_in_its_attempt() -> None:
    attempt = CurrentAttempt(task_id="t1")
    with running(attempt):
        assert seen_by_a_thread() is attempt
    assert seen_by_a_thread() is not attempt


def test_where_bodies_share_a_process_a_thread_is_in_none_of_them() -> None:
    with running(CurrentAttempt(task_id="t1")), running(CurrentAttempt(task_id="t2")) as inner:
        assert seen_by_a_thread().task_id == "local"
        assert current_attempt() is inner
