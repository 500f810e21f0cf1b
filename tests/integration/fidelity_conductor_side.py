"""One side of the Conductor machine: a server with the names and ids of one example.

Tells what a server answers so that it can be compared. Must not know which operations there are.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tests.integration.fidelity import Teller
from tests.integration.fidelity_conductor_shapes import TASK_TYPES, definition_of

from perago.domain.attempt import AttemptRecord, AttemptSnapshot, AttemptStatus, WorkflowStatus
from perago.ports.conductor import PollRequest, TerminalUpdate
from perago.testing.contract.conductor_under_test import ConductorUnderTest

UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
UNKNOWN = "00000000-0000-4000-8000-000000000000"
TIMES = frozenset({"start_time", "scheduled_time", "ended_at"})
STAMPS = frozenset({"createTime", "updateTime", "createdBy", "updatedBy"})
POLLS_MAX = 50
POLLED_MAX = 50
COMPLETE_SECONDS = 40.0


@dataclass
class Side(Teller):
    """One server, with the names of one example."""

    harness: ConductorUnderTest
    stem: str
    # The side that is asked first; from it this one knows how many rows will be handed out.
    ahead: "Side | None" = None
    handed: list[int] = field(default_factory=list[int])
    ids: list[str] = field(default_factory=list[str])
    workflows: list[str] = field(default_factory=list[str])
    domains: dict[str, str | None] = field(default_factory=dict[str, str | None])
    parents: dict[str, str] = field(default_factory=dict[str, str])
    attempts: list[AttemptRecord] = field(default_factory=list[AttemptRecord])
    defined: set[str] = field(default_factory=set[str])
    touched: set[str] = field(default_factory=set[str])
    times: dict[tuple[str, str], list[int]] = field(
        default_factory=dict[tuple[str, str], list[int]]
    )
    untold = frozenset({"queue_wait_ms"})

    def of(self, name: str) -> str:
        """A name of this example alone: the server is everybody's."""
        return f"{self.stem}_{name}"

    def is_of_workers(self, row: AttemptSnapshot) -> bool:
        """Whether workers poll it; the server's own tasks have names of no example."""
        return row.task_type.startswith(self.stem)

    def name_of(self, fact: str, text: str) -> object:  # noqa: ARG002 - ids stand everywhere
        """Ids by number, wherever they stand."""
        return UUID.sub(lambda found: f"id {self.number(found.group())}", text)

    def number(self, text: str) -> int:
        """The number of an id."""
        if text not in self.ids:
            self.ids.append(text)
        return self.ids.index(text)

    def _facts(self, facts: Mapping[str, object]) -> dict[str, object]:
        told = super()._facts(facts)
        whose = str(facts.get("task_id", facts.get("workflow_id")))
        for name in TIMES & facts.keys():
            told[name] = self._version(whose, name, facts[name])
        # Of its own tasks the server says what it uses itself: how often it looked, and with what.
        row = facts.get("snapshot")
        if isinstance(row, AttemptSnapshot) and not self.is_of_workers(row):
            del told["input_data"]
        if isinstance(row, AttemptSnapshot):
            # Of its own rows the fake keeps no end, and an open row may show an earlier one.
            ended_at = told.pop("ended_at", None)
            if row.status.is_terminal and self.is_of_workers(row):
                told["has_ended_at"] = bool(ended_at)
        if not facts.get("reason"):
            told.pop("reason", None)  # absent or empty, the server takes either
        status = facts.get("status")
        if isinstance(status, WorkflowStatus) and not status.is_terminal:
            told.pop("ended_at", None)  # not to be read, says the port
        if "poll_count" in facts and not str(facts["task_type"]).startswith(self.stem):
            # It polls its own tasks, and starts one again that it was told of and then polled.
            del told["poll_count"]
            told["start_time"] = bool(facts["start_time"])
        return told

    def _version(self, whose: str, name: str, value: object) -> int:
        """How often a time was seen to change; 0 while there is none."""
        assert isinstance(value, int)
        seen = self.times.setdefault((whose, name), [0])
        if value not in seen:
            seen.append(value)
        return seen.index(value)

    async def define(self, shape: str) -> str:
        """Register what a shape needs, once; its name."""
        if shape in self.defined:
            return self.of(shape)
        self.defined.add(shape)
        if shape == "child":
            await self.define("one")
        for name, fields in TASK_TYPES.items():
            if fields is not None and name not in self.defined:
                self.defined.add(name)
                await self.harness.definitions.put({"name": self.of(name), **fields})
        await self.harness.workflows.put_definition(definition_of(shape, self.of))
        return self.of(shape)

    async def definition(self, name: str) -> object:
        """A task definition as it was put; the server also notes when and by whom."""
        found = await self.harness.definitions.read(name)
        return found and {key: value for key, value in found.items() if key not in STAMPS}

    async def start(self, shape: str, case: str | None, domain: str | None) -> str:
        """Start a workflow of a shape; its id."""
        name = await self.define(shape)
        domains = {"*": domain} if domain else {}
        workflow_id = await self.harness.workflows.start(
            name, {"case": case}, task_to_domain=domains
        )
        self.workflows.append(workflow_id)
        self.domains[workflow_id] = domain
        self.touched.add(workflow_id)
        return workflow_id

    def touch(self, number: int) -> str:
        """A workflow by number, the newest first; counted around, one of them is unknown."""
        number %= len(self.workflows) + 1
        if number == len(self.workflows):
            return UNKNOWN
        self.touched.add(self.workflows[-1 - number])
        return self.workflows[-1 - number]

    def holder(self, number: int) -> AttemptRecord | None:
        """An attempt that was handed out, the newest first; it may be long over."""
        if not self.attempts:
            return None
        attempt = self.attempts[-1 - number % len(self.attempts)]
        self.touched.add(attempt.snapshot.workflow_id)
        return attempt

    async def poll(self, of: str, worker: str, domain: str | None = None) -> object:
        """Take all that waits: of many rows nobody promises which comes first.

        The real server may need a moment until a row is on its queue.
        """
        wanted = 0 if self.ahead is None else self.ahead.handed.pop(0)
        request = PollRequest(self.of(of), worker, POLLED_MAX, domain)
        taken = list(await self.harness.queue.poll(request))
        for _ in range(POLLS_MAX):
            if len(taken) >= wanted:
                break
            taken += await self.harness.queue.poll(replace(request, count=wanted - len(taken)))
        taken.sort(key=lambda row: self.number(row.snapshot.task_id))
        self.handed.append(len(taken))
        self.attempts += taken
        self.touched |= {row.snapshot.workflow_id for row in taken}
        return taken

    async def finish(
        self, attempt: AttemptRecord, status: AttemptStatus, worker: str, x: object
    ) -> None:
        """End an attempt; whoever does not complete gives a reason."""
        completed = status is AttemptStatus.COMPLETED
        output, reason = ({"x": x}, None) if completed else ({}, "why")
        update = TerminalUpdate(attempt.snapshot, worker, status, output, reason)
        await self.harness.queue.complete(update, timeout_seconds=COMPLETE_SECONDS)

    async def state(self, workflow_id: str) -> object:
        """All that anybody can see of a workflow."""
        seen = await self.harness.queue.read_workflow(workflow_id)
        record = await self.harness.workflows.read(workflow_id)
        for row in () if record is None else record.attempts:
            self.parents[str(row.output_data.get("subWorkflowId"))] = workflow_id
        return self.told((seen, record))
