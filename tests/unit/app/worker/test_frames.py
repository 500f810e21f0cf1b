"""Messages between parent and executor: what goes in comes out, what is not ours is refused."""

import json
import math
from datetime import UTC, datetime
from pathlib import Path

import pytest

from perago.app.worker import frames
from perago.domain.attempt import AttemptSnapshot, AttemptStatus, ExecutionId
from perago.ports.task_body import (
    BodyCall,
    BodyOutcome,
    BodyRaised,
    BodyReturned,
    BodyStopped,
    Checkpoint,
    Checkpoints,
    CheckpointTerms,
    StagedChanges,
)

ATTEMPT = AttemptSnapshot("w", "t", "r", "task", AttemptStatus.IN_PROGRESS, retry_count=2)
ME = ExecutionId("e1")
FOUND = Checkpoint(Path("found"), {"rows": 3}, datetime(2026, 11, 20, 9, tzinfo=UTC))
TERMS = CheckpointTerms("out", interval_seconds=60, bytes_max=10, found=FOUND)
FRAMES: list[frames.Frame] = [
    frames.RunBody(BodyCall("task", ATTEMPT, ME, {"a": [1, {"b": None}]}, Path("x")), "worker"),
    frames.RunBody(
        BodyCall("task", ATTEMPT, ME, {}, None, staged=StagedChanges("d", ("ü",), sizes={"ü": 3}))
    ),
    frames.RunBody(
        BodyCall("task", ATTEMPT, ME, {}, Path("x"), checkpoints=Checkpoints(TERMS)),
        answers_changes=True,
    ),
    frames.Ready(),
    frames.ImportFailed("no module"),
    frames.Began("e1"),
    frames.Ended("e1", {"ü": 1.5}),
    frames.Ended("e1", raised=BodyRaised("why", terminal=True, traceback="where")),
    frames.Ended("e1"),
    frames.Logged(20, "team", "text"),
    frames.Sampled("gauge", "app.x", 1.0, {"a": "b"}),
    frames.Progressed("half", {"rows": "3"}),
]


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        ({"returned": {}}, BodyReturned({})),
        ({"returned": {"a": 1}, "raised": {"reason": "why"}}, BodyRaised("why")),
        ({}, BodyStopped("the task function was ended by a signal")),
        ({"returned": None}, BodyStopped("the task function was ended by a signal")),
        ({"result": {"a": 1}}, BodyStopped("the task function was ended by a signal")),
    ],
    ids=["empty result", "both", "neither", "null", "under another name"],
)
def test_only_a_result_that_arrived_is_one(said: dict[str, object], outcome: BodyOutcome) -> None:
    body = json.dumps({"kind": "ended", "execution_id": "e1"} | said).encode()
    ended = frames.decode(body)
    assert isinstance(ended, frames.Ended)
    assert ended.outcome == outcome


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_messages_survive_a_stream_that_is_cut_anywhere(size: int) -> None:
    stream = b"".join(map(frames.encode, FRAMES))
    buffer = frames.FrameBuffer()
    came = [
        frame
        for start in range(0, len(stream), size)
        for frame in buffer.feed(stream[start : start + size])
    ]
    assert came == FRAMES


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, object(), {1, 2}], ids=["nan", "inf", "object", "set"]
)
def test_what_json_cannot_say_is_refused_by_the_sender(value: object) -> None:
    with pytest.raises(frames.FrameError, match="not JSON"):
        frames.encode(frames.Ended("e1", {"value": value}))


def test_a_message_has_a_largest_size_on_both_sides() -> None:
    with pytest.raises(frames.FrameError, match="at most"):
        frames.encode(frames.Ended("e1", {"text": "x" * frames.FRAME_BYTES_MAX}))
    header = frames.HEADER.pack(frames.FRAME_BYTES_MAX + 1)
    with pytest.raises(frames.FrameError, match="at most"):
        list(frames.FrameBuffer().feed(header))


@pytest.mark.parametrize(
    "body",
    [
        {"kind": "surprise"},
        {"kind": "ended", "returned": {}},
        {"kind": "ended", "execution_id": 1, "returned": []},
        [],
    ],
    ids=["kind", "field", "type", "list"],
)
def test_what_is_not_one_of_ours_is_refused_by_the_receiver(body: object) -> None:
    with pytest.raises(frames.FrameError, match="not a message of Perago"):
        frames.decode(json.dumps(body).encode())


@pytest.mark.parametrize(
    "body",
    [
        {"kind": "sampled", "metric": "gauge", "name": "x", "value": 1, "labels": {"shard": 3}},
        {"kind": "sampled", "metric": "gauge", "name": "x"},
        {"kind": "logged", "level": "high", "logger": "team", "text": "x"},
        {"kind": "progressed", "message": 5},
    ],
    ids=["label", "field", "level", "message"],
)
def test_a_malformed_line_or_sample_is_reported_and_never_refused(body: object) -> None:
    frame = frames.decode(json.dumps(body).encode())
    assert isinstance(frame, frames.Logged)
    assert frame.text.startswith("dropped a log record, a sample")


def test_half_a_character_goes_from_what_is_reported_and_refuses_a_result() -> None:
    odd = "name \udcff"
    sent = frames.encode(frames.Logged(20, "team", odd)) + frames.encode(frames.Progressed(odd))
    came = list(frames.FrameBuffer().feed(sent))
    assert came == [frames.Logged(20, "team", "name ?"), frames.Progressed("name ?")]
    with pytest.raises(frames.FrameError, match="surrogates not allowed"):
        frames.encode(frames.Ended("e1", {"name": odd}))
