"""Rows as a real server sends them, the updates it is sent, and what may be sent as JSON."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perago.adapters.conductor.mapping import (
    attempt_record,
    attempt_snapshot,
    hand_back_body,
    heartbeat_body,
    plain_json,
    terminal_body,
    workflow_snapshot,
)
from perago.domain.attempt import (
    AttemptRecord,
    AttemptSnapshot,
    AttemptStatus,
    WorkflowSnapshot,
    WorkflowStatus,
)
from perago.ports.conductor import HandBack, TerminalUpdate
from perago.ports.errors import RequestRefusedError, UnavailableError

ROW: dict[str, object] = {
    "workflowInstanceId": "w",
    "taskId": "t1",
    "referenceTaskName": "clean",
    "taskType": "clean_rows",
    "taskDefName": "clean_rows",
    "status": "IN_PROGRESS",
    "retryCount": 1,
    "seq": 2,
    "iteration": 3,
    "pollCount": 4,
    "startTime": 1795012302461,
    "scheduledTime": 1795012302304,
    "updateTime": 1795012302470,
    "workerId": "worker-1",
    "retriedTaskId": "t0",
    "retried": False,
    "inputData": {"workspace": {"ref": "c1"}},
    "outputData": {},
    "responseTimeoutSeconds": 30,
    "queueWaitTime": 157,
    "taskDefinition": {"name": "clean_rows"},
}
SNAPSHOT = AttemptSnapshot(
    workflow_id="w",
    task_id="t1",
    reference_name="clean",
    task_type="clean_rows",
    status=AttemptStatus.IN_PROGRESS,
    retry_count=1,
    seq=2,
    iteration=3,
    poll_count=4,
    start_time=1795012302461,
    scheduled_time=1795012302304,
    worker_id="worker-1",
    retried_task_id="t0",
)
BARE: dict[str, object] = {
    "workflowInstanceId": "w",
    "taskId": "t1",
    "referenceTaskName": "clean",
    "taskType": "clean_rows",
    "status": "SCHEDULED",
}


def test_a_polled_row_becomes_a_record() -> None:
    assert attempt_record(ROW) == AttemptRecord(
        SNAPSHOT,
        input_data={"workspace": {"ref": "c1"}},
        output_data={},
        response_timeout_seconds=30,
        queue_wait_ms=157,
    )


def test_absent_and_null_fields_are_the_same() -> None:
    nulls = dict.fromkeys(set(ROW) - set(BARE) - {"updateTime", "taskDefinition"})
    assert attempt_record({**BARE, **nulls}) == attempt_record(BARE)
    assert attempt_record(BARE).snapshot == AttemptSnapshot(
        "w", "t1", "clean", "clean_rows", AttemptStatus.SCHEDULED
    )


@pytest.mark.parametrize(("said", "domain"), [("blue", "blue"), ("", None), (None, None)])
def test_a_row_names_the_domain_of_its_queue(said: str | None, domain: str | None) -> None:
    assert attempt_record({**BARE, "domain": said}).domain == domain


@pytest.mark.parametrize(
    ("status", "polls", "delay_seconds"),
    [("SCHEDULED", 0, 60), ("SCHEDULED", 1, 0), ("CANCELED", 0, 0), ("IN_PROGRESS", 1, 0)],
)
def test_only_a_row_that_no_worker_has_had_waits_from_the_start(
    status: str, polls: int, delay_seconds: int
) -> None:
    row = {**BARE, "status": status, "pollCount": polls, "callbackAfterSeconds": 60}
    assert attempt_record(row).delay_seconds == delay_seconds


def test_a_superseded_row_says_so() -> None:
    assert attempt_snapshot({**ROW, "retried": True}).retried


def test_a_failed_row_has_its_reason() -> None:
    row = {**ROW, "status": "FAILED", "reasonForIncompletion": "boom"}
    assert attempt_record(row).reason == "boom"


@pytest.mark.parametrize(
    "answer",
    [
        None,
        "<html>",
        [],
        {},
        dict.fromkeys(ROW),
        {**ROW, "taskId": ""},
        {**ROW, "status": "ASLEEP"},
        {**ROW, "inputData": "text"},
    ],
    ids=["nothing", "page", "list", "empty", "all null", "no id", "unknown status", "bad input"],
)
def test_what_is_no_row_is_no_usable_answer(answer: object) -> None:
    with pytest.raises(UnavailableError):
        attempt_record(answer)


def test_a_workflow_has_all_its_rows() -> None:
    answer = {"workflowId": "w", "status": "PAUSED", "tasks": [BARE, ROW]}
    assert workflow_snapshot(answer) == WorkflowSnapshot(
        "w", WorkflowStatus.PAUSED, (attempt_snapshot(BARE), SNAPSHOT)
    )


def test_a_workflow_that_ended_says_when() -> None:
    answer = {"workflowId": "w", "status": "FAILED", "endTime": 1767225600123}
    assert workflow_snapshot(answer).ended_at == 1767225600123


def test_a_workflow_without_rows_is_one() -> None:
    answer = {"workflowId": "w", "status": "RUNNING"}
    assert workflow_snapshot(answer) == WorkflowSnapshot("w", WorkflowStatus.RUNNING, ())


def test_a_completion_carries_output_and_worker() -> None:
    output = MappingProxyType({"result": (1, 2)})
    update = TerminalUpdate(SNAPSHOT, "worker-1", AttemptStatus.COMPLETED, output)
    assert terminal_body(update) == {
        "workflowInstanceId": "w",
        "taskId": "t1",
        "workerId": "worker-1",
        "status": "COMPLETED",
        "outputData": {"result": [1, 2]},
    }


def test_a_failure_carries_its_reason() -> None:
    update = TerminalUpdate(SNAPSHOT, "worker-1", AttemptStatus.FAILED, reason="boom")
    assert terminal_body(update)["reasonForIncompletion"] == "boom"


def test_an_output_that_json_cannot_carry_is_refused() -> None:
    update = TerminalUpdate(SNAPSHOT, "w", AttemptStatus.COMPLETED, {"x": float("nan")})
    with pytest.raises(RequestRefusedError, match=r"output\.x is nan"):
        terminal_body(update)


@pytest.mark.parametrize(
    "status", [AttemptStatus.IN_PROGRESS, AttemptStatus.SCHEDULED, AttemptStatus.TIMED_OUT]
)
def test_what_a_worker_may_not_send_is_a_defect_of_the_caller(status: AttemptStatus) -> None:
    with pytest.raises(ValueError, match="does not end as"):
        terminal_body(TerminalUpdate(SNAPSHOT, "w", status))


def test_a_heartbeat_extends_the_lease_and_keeps_the_worker() -> None:
    assert heartbeat_body(SNAPSHOT, "worker-1") == {
        "workflowInstanceId": "w",
        "taskId": "t1",
        "workerId": "worker-1",
        "status": "IN_PROGRESS",
        "extendLease": True,
    }


def test_a_hand_back_extends_nothing() -> None:
    given = HandBack(SNAPSHOT, "worker", "worker draining", {"rows": 3}, after_seconds=10)
    body = hand_back_body(given)
    assert (body["status"], body["callbackAfterSeconds"]) == ("IN_PROGRESS", 10)
    assert (body["outputData"], body["reasonForIncompletion"]) == ({"rows": 3}, "worker draining")
    assert "extendLease" not in body


LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False)
) | st.text(st.characters(exclude_categories=["Cs"]))
JSON = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(JSON)
def test_json_goes_through_unchanged(value: object) -> None:
    assert plain_json(value, "output") == value
    assert json.loads(json.dumps(plain_json(value, "output"), allow_nan=False)) == value


def test_read_only_views_and_tuples_become_plain() -> None:
    value: Mapping[str, object] = MappingProxyType({"a": (1, MappingProxyType({"b": 2}))})
    assert json.dumps(plain_json(value, "output")) == '{"a": [1, {"b": 2}]}'


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (math.nan, r"output\.rows\[1\] is nan"),
        (math.inf, r"output\.rows\[1\] is inf"),
        (Path("x"), r"output\.rows\[1\] is a PosixPath"),
        (b"bytes", r"output\.rows\[1\] is a bytes"),
        ({1, 2}, r"output\.rows\[1\] is a set"),
        ({7: "x"}, r"output\.rows\[1\] has the key 7 of type int"),
        ("\ud800", r"output\.rows\[1\] contains half of a character"),
    ],
    ids=["nan", "infinity", "object", "bytes", "set", "number as key", "lone surrogate"],
)
def test_what_json_cannot_carry_is_refused_with_its_place(value: object, complaint: str) -> None:
    with pytest.raises(RequestRefusedError, match=complaint):
        plain_json({"rows": [0, value]}, "output")
