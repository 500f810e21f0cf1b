"""Answers of servers in words by which two installations can be compared.

Ids differ from one installation to the next: each is named by the order in which it came up. What a
server says in words of its own is left out; what kind of answer it is stays.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import TypeVar, cast

from perago.adapters.memory.conductor_server import OpenWrite
from perago.domain.attempt import AttemptRecord, AttemptSnapshot
from perago.ports.lakefs import BranchRecord, TagRecord
from perago.ports.objects import ObjectEntry, Page

Answer = TypeVar("Answer")

# A UUID, or as many hex digits as the shortest ids have that names and texts carry.
ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{8,}")
# A row that has timed out says how long its lease was; real ones are shorter.
LEASE = re.compile(r"responseTimeout: \d+")
# Texts are the server's own, a wait is that of this machine, and leases differ.
LEFT_OUT = frozenset({"text", "storage_namespace", "queue_wait_ms", "response_timeout_seconds"})


def _tells_when(row: AttemptSnapshot) -> bool:
    """Whether both servers say when a row ended: one that a worker has polled, and that has ended.

    Of its own rows the fake keeps no end, and an open row may show an earlier one.
    """
    return row.status.is_terminal and row.worker_id is not None


class Words:
    """The ids of one installation by the order in which they came up.

    `own` are names that only this harness has, and what they are called.
    """

    def __init__(self, own: Mapping[str, str] | None = None) -> None:
        self._own = own or {}
        self._known: dict[str, str] = {}
        self._ids: dict[str, str] = {}

    def of(self, value: object) -> str:
        """A value in words; ids that are new get the next numbers."""
        match value:
            case str():
                found = self._text(value)
            case Enum():
                found = str(value.value)
            case Exception():
                found = type(value).__name__
            case OpenWrite():  # the in-memory queue hands it on; the real one answers nothing
                found = "None"
            case ObjectEntry():
                found = self._fields(value._replace(modified_at=0), ObjectEntry._fields)
            case AttemptSnapshot(task_type="JOIN", poll_count=count) if count:
                found = self.of(replace(value, poll_count=0))  # the server polls it for itself
            case AttemptRecord(snapshot=row, ended_at=moment) if moment and not _tells_when(row):
                found = self.of(replace(value, ended_at=0))
            case _:
                found = self._parts(value)
        return found

    def _parts(self, value: object) -> str:
        match value:
            case Mapping():
                found = self._mapping(cast("Mapping[object, object]", value))
            case Sequence() if not isinstance(value, bytes):
                parts = cast("Sequence[object]", value)
                found = f"[{', '.join(map(self.of, parts))}]"
            case _ if is_dataclass(value):
                found = self._fields(value, [each.name for each in fields(value)])
            case _:
                found = repr(value)
        return found

    def _fields(self, value: object, names: Sequence[str]) -> str:
        kept = [name for name in names if name not in LEFT_OUT]
        told = [f"{name}={self.of(getattr(value, name))}" for name in kept]
        return f"{type(value).__name__}({', '.join(told)})"

    def id_of(self, text: str) -> str:
        """The text with this installation's ids in place of their names."""
        return re.sub(r"#\d+", lambda found: self._ids[found.group()], text)

    def in_order(self, answer: Answer) -> Answer:
        """A page of names in the order in which their ids came up.

        Names hold hashes of ids, so each harness sorts them in another way, and the process that
        walks the page would go another way.
        """
        page = cast("Page[object]", answer)
        items = page.items if isinstance(cast("object", answer), Page) else ()
        refs = [each for each in items if isinstance(each, BranchRecord | TagRecord)]
        if not refs:
            return answer
        refs.sort(key=lambda ref: self.of(ref.name))
        return cast("Answer", Page(tuple(refs), page.more, refs[-1].name))

    def _mapping(self, value: Mapping[object, object]) -> str:
        told = [f"{self.of(key)}: {self.of(value[key])}" for key in sorted(value, key=str)]
        return f"{{{', '.join(told)}}}"

    def _text(self, text: str) -> str:
        text = LEASE.sub("responseTimeout: some", text)
        for name, plain in self._own.items():
            text = text.replace(name, plain)
        return ID.sub(lambda found: self._named(found.group()), text)

    def _named(self, found: str) -> str:
        if found not in self._known:
            name = f"#{len(self._known) + 1:03}"
            self._known[found], self._ids[name] = name, found
        return self._known[found]
