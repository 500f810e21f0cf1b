"""What a task function came to, as a record that outlives its worker.

The record says for which logical execution the function ran, what it returned, and, in the words of
the pipeline, what it left in its directory. Reads and writes nothing; a damaged record is None.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any, cast

from perago.domain.logical_execution import LogicalExecutionKey, WorkspaceReference, short_hash

# A worker of another version that finds a record of this one on the disk must not guess what its
# fields mean. With another number it runs the function again.
FORMAT = 1


@dataclass(frozen=True, slots=True)
class RanFor:
    """For what a task function ran: what it did is of use for nothing else.

    The key already has all of it but the task name. It is a hash of hashes, so it cannot say what
    differs; the parts are compared as well, and a reader of the file sees them. The code of the
    task is not among them, because the key does not know it either: a decision of the old code
    counts after a deploy, and so does its outcome.
    """

    key: LogicalExecutionKey
    task_name: str
    repository: str
    branch: str
    input_commit: str
    prefix: str
    params_digest: str

    @classmethod
    def of(
        cls,
        key: LogicalExecutionKey,
        task_name: str,
        workspace: WorkspaceReference,
        prefix: str,
        params: object,
    ) -> "RanFor":
        """The parts as an attempt has them."""
        text = json.dumps(params, sort_keys=True, separators=(",", ":"))
        return cls(
            key,
            task_name,
            workspace.repository,
            workspace.branch,
            workspace.ref,
            prefix,
            short_hash(text),
        )


@dataclass(frozen=True, slots=True)
class KeptOutcome:
    """A finished task function: its result, its seconds, and its directory as it left it."""

    ran_for: RanFor
    result: Mapping[str, object]
    seconds: float
    directory: str

    def as_text(self) -> str:
        """The record as it stands on the disk, with a digest that a torn one does not have."""
        outcome = {
            "ran_for": asdict(self.ran_for),
            "result": dict(self.result),
            "seconds": self.seconds,
            "directory": self.directory,
        }
        written = json.dumps(outcome, separators=(",", ":"))
        return json.dumps({"format": FORMAT, "digest": _digest(written), "outcome": written})


def read_kept_outcome(text: str) -> KeptOutcome | None:
    """Read a record; None for one that is torn, damaged, or of another format."""
    try:
        record = cast("Mapping[str, object]", json.loads(text))
        written = record["outcome"]
        if record["format"] != FORMAT or not isinstance(written, str):
            return None
        if record["digest"] != _digest(written):
            return None
        fields = cast("Mapping[str, object]", json.loads(written))
        return KeptOutcome(
            ran_for=RanFor(**cast("dict[str, Any]", fields["ran_for"])),
            result=cast("Mapping[str, object]", fields["result"]),
            seconds=cast("float", fields["seconds"]),
            directory=cast("str", fields["directory"]),
        )
    except (ValueError, KeyError, TypeError):
        return None


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()
