"""Messages between a worker and its executors: typed, as JSON with the length in front.

The parent has the keys and the executor runs code that is not trusted with them. So nothing is
unpickled, and length and types are checked on both sides. `sent_outcome` turns the end of a task
function into a message, and a result that no message can carry into a failure of the function.
Knows no socket and no process.
"""

import json
import logging
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, TypeAdapter, ValidationError

from perago.ports import task_body

# Above the largest result (10 MiB, below) and the largest log record (6 MB as JSON). Without a
# limit an executor could announce 4 GiB, and its parent would keep the bytes of all attempts
# waiting.
FRAME_BYTES_MAX = 16 * 1024 * 1024
# Above this Conductor 3.32 turns the row into FAILED_WITH_TERMINAL_ERROR and answers 200.
RESULT_BYTES_MAX = 10 * 1024 * 1024
HEADER = struct.Struct("!I")  # the length in four bytes, which would allow 4 GiB


class FrameError(Exception):
    """A message that is not one of ours, or larger than a message may be."""


@dataclass(frozen=True, slots=True)
class RunBody:
    """Parent to executor: run this body."""

    call: task_body.BodyCall
    worker_id: str = ""
    answers_changes: bool = False
    kind: Literal["run"] = "run"


@dataclass(frozen=True, slots=True)
class Ready:
    """Executor to parent: every task module is imported."""

    kind: Literal["ready"] = "ready"


@dataclass(frozen=True, slots=True)
class ImportFailed:
    """Executor to parent: a task module cannot be imported."""

    reason: str
    kind: Literal["import-failed"] = "import-failed"


@dataclass(frozen=True, slots=True)
class Began:
    """Executor to parent: this body begins; a death before it is not the body's."""

    execution_id: str
    kind: Literal["began"] = "began"


@dataclass(frozen=True, slots=True)
class Ended:
    """Executor to parent: the body returned or raised.

    Neither means that a signal ended it; then the executor exits.
    """

    execution_id: str
    returned: Mapping[str, Any] | None = None
    raised: task_body.BodyRaised | None = None
    kind: Literal["ended"] = "ended"

    @property
    def outcome(self) -> task_body.BodyOutcome:
        """What the message says of the body."""
        if self.raised is not None:
            return self.raised
        if self.returned is not None:
            return task_body.BodyReturned(self.returned)
        return task_body.BodyStopped("the task function was ended by a signal")


@dataclass(frozen=True, slots=True)
class Logged:
    """Executor to parent: one record of Python's logging."""

    level: int
    logger: str
    text: str
    kind: Literal["logged"] = "logged"


@dataclass(frozen=True, slots=True)
class Sampled:
    """Executor to parent: one sample of a metric that the body wrote."""

    metric: str
    name: str
    value: float
    labels: Mapping[str, str]
    kind: Literal["sampled"] = "sampled"


@dataclass(frozen=True, slots=True)
class Progressed:
    """Executor to parent: what the body said of its progress."""

    message: str
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    kind: Literal["progressed"] = "progressed"


@dataclass(frozen=True, slots=True)
class CheckpointTaken:
    """Executor to parent: a copy for a checkpoint waits beside the workspace."""

    execution_id: str
    kind: Literal["checkpoint-taken"] = "checkpoint-taken"


@dataclass(frozen=True, slots=True)
class ChangesAsked:
    """Executor to parent: the body wants to know what changed; it waits for the answer."""

    execution_id: str
    kind: Literal["changes-asked"] = "changes-asked"


@dataclass(frozen=True, slots=True)
class ChangesAnswered:
    """Parent to executor: what changed, or why that cannot be said."""

    execution_id: str
    changes: task_body.Changes | None = None
    refused: str = ""
    kind: Literal["changes-answered"] = "changes-answered"


Frame: TypeAlias = (
    RunBody
    | Ready
    | ImportFailed
    | Began
    | Ended
    | Logged
    | Sampled
    | Progressed
    | CheckpointTaken
    | ChangesAsked
    | ChangesAnswered
)
# A message of these that is not well-formed is dropped; any other one ends the executor.
_TELEMETRY = frozenset({"logged", "sampled", "progressed"})
# What people read, as a reason. Half a surrogate pair in it becomes `?`; in a result it is refused.
_READ_BY_PEOPLE = (ImportFailed, Logged, Sampled, Progressed)
_FRAMES: TypeAdapter[Frame] = TypeAdapter(Annotated[Frame, Field(discriminator="kind")])


def encode(frame: Frame, bytes_max: int = FRAME_BYTES_MAX) -> bytes:
    """One message with its length in front; raises FrameError for what JSON cannot say."""
    is_reason = isinstance(frame, Ended) and frame.raised is not None
    lenient = "replace" if is_reason or isinstance(frame, _READ_BY_PEOPLE) else "strict"
    try:
        text = json.dumps(frame, default=_plain, allow_nan=False, ensure_ascii=False)
        body = text.encode("utf-8", lenient)
    except (TypeError, ValueError, RecursionError) as error:
        raise FrameError(f"not JSON: {error}") from error
    if len(body) > bytes_max:
        raise FrameError(f"{len(body)} bytes, at most {bytes_max}")
    return HEADER.pack(len(body)) + body


def decode(body: bytes) -> Frame:
    """Read one message without its length."""
    try:
        return _FRAMES.validate_json(body)
    except ValidationError as error:
        # The first place of what is wrong names the kind of message that was meant.
        location = error.errors(include_url=False, include_input=False)[0]["loc"]
        if location and location[0] in _TELEMETRY:
            # Only the line or the sample is lost. Ending the executor would fail its attempt.
            text = "dropped a log record, a sample or a line of progress that was not well-formed"
            return Logged(logging.WARNING, __name__, text)
        locations = ", ".join(".".join(map(str, each["loc"])) for each in error.errors()[:3])
        raise FrameError(f"not a message of Perago: {locations or error.title}") from error


class FrameBuffer:
    """Cuts a stream of bytes into messages."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, data: bytes | memoryview) -> Iterator[Frame]:
        """Add bytes that arrived; yield the messages that are complete."""
        self._bytes += data
        while len(self._bytes) >= HEADER.size:
            (length,) = HEADER.unpack_from(self._bytes)
            if not 0 < length <= FRAME_BYTES_MAX:
                raise FrameError(f"a message of {length} bytes, at most {FRAME_BYTES_MAX}")
            end = HEADER.size + length
            if len(self._bytes) < end:
                return
            body = bytes(self._bytes[HEADER.size : end])
            del self._bytes[:end]
            yield decode(body)


# `dataclasses.fields` builds a new tuple at each call, and each message asks for several types.
_NAMES: dict[type, tuple[str, ...]] = {}


def _names(kind: type) -> tuple[str, ...]:
    """The fields of a dataclass that are compared, looked up once; none of any other type.

    What is not compared is a function of the process that made the value.
    """
    if kind not in _NAMES:
        found = fields(kind) if is_dataclass(kind) else ()
        _NAMES[kind] = tuple(each.name for each in found if each.compare)
    return _NAMES[kind]


def _plain(value: object) -> object:
    names = _names(type(value))
    if names:
        return {name: getattr(value, name) for name in names}
    if isinstance(value, Mapping):
        # Both type checkers forget what the keys of a bare Mapping are.
        return dict(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat()
    text = f"{type(value).__name__} is not JSON"
    raise TypeError(text)


def sent_outcome(
    call: task_body.BodyCall, outcome: task_body.BodyOutcome
) -> tuple[bytes, task_body.BodyOutcome]:
    """The message for the parent, and the outcome that it stands for."""
    returned = outcome.result if isinstance(outcome, task_body.BodyReturned) else None
    raised = outcome if isinstance(outcome, task_body.BodyRaised) else None
    try:
        return encode(Ended(call.execution_id, returned, raised), RESULT_BYTES_MAX), outcome
    except FrameError as error:
        failed = task_body.BodyRaised(f"result of the task cannot be sent: {error} [PRG-R002]")
        return encode(Ended(call.execution_id, raised=failed)), failed
