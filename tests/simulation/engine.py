"""One schedule: processes, servers and chance, one step at a time, until nothing is left to do.

The default is the quiet run: the running process goes on, every call succeeds, and what waits for
time waits until nothing else can happen. A chooser says where a schedule differs from that.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.simulation import moves
from tests.simulation.actors import Actor, new_attempt
from tests.simulation.choices import Chooser, Differences, Weighted
from tests.simulation.invariants import Broken
from tests.simulation.mix import Kind, Mix
from tests.simulation.monitor import Monitor, monitor_of
from tests.simulation.scene import RESPONSE_SECONDS, Scene, open_scene
from tests.simulation.steering import MICROSECONDS, BodyRun, PortCall, Sleep
from tests.simulation.transcript import Line
from tests.simulation.workspace import BodyEnd

from perago.adapters.memory.conductor_server import OpenWrite
from perago.domain.attempt import AttemptStatus, WorkflowStatus
from perago.domain.errors import PeragoError
from perago.domain.outcome import Merged, TooManyTries
from perago.ports.errors import OutcomeUnknownError, ServiceError, UnavailableError

LATE_BEATS = 20 * MICROSECONDS

LOUD = frozenset(
    {"branches.merge", "branches.relocate", "branches.delete", "queue.complete"}
    | {"queue.hand_back", "tags.create", "tags.delete"}
)
READS_OF_THE_ROW = frozenset({"queue.read_attempt", "queue.read_workflow"})
READ_FATES: Weighted = (("crash before", 1.0), ("refused", 2.0))
WRITE_FATES: Weighted = (
    ("crash before", 1.0),
    ("crash after", 2.0),
    ("request lost", 1.0),
    ("answer lost", 2.0),
    ("lands late", 3.0),
    ("refused", 1.0),
)
BODY_FATES: Weighted = (
    ("writes nothing", 6.0),
    ("raises", 2.0),
    ("raises terminally", 0.5),
    ("drained", 1.0),
    ("crash before", 1.0),
)


# 0.6.1 waits for its function however long it takes, or is killed: it never ends one alone.
OLD_BODY_FATES: Weighted = tuple(each for each in BODY_FATES if each[0] != "drained")


@dataclass(slots=True, eq=False)
class Late:
    """A request that is under way longer than its sender waits."""

    call: PortCall
    sender: Actor


@dataclass(frozen=True, slots=True)
class Ran:
    """What became of one schedule."""

    differences: Differences
    broken: Broken | None
    steps: int
    seen: frozenset[str]
    lines: Sequence[Line]


@dataclass(slots=True)
class Engine:
    """Runs one schedule; `tells` keeps its story in words, which costs time."""

    mix: Mix
    chooser: Chooser
    tells: bool = False
    listens: bool = False
    """Keeps what each process heard as a number, for a search that compares states."""
    lines: list[Line] = field(default_factory=list[Line])
    actors: list[Actor] = field(default_factory=list[Actor])
    wire: list[Late] = field(default_factory=list[Late])
    spent: Counter[Kind] = field(default_factory=Counter[Kind])
    seen: set[str] = field(default_factory=set[str])
    current: Actor | None = None
    steps: int = 0
    attempts: int = 0
    passes: int = 0
    idles: int = 0
    scene: Scene = field(init=False)
    monitor: Monitor = field(init=False)

    def __post_init__(self) -> None:
        self.scene = self.open()
        self.monitor = monitor_of(self.scene, self.seen, self.actors)

    def open(self) -> Scene:
        """The servers of this schedule."""
        return open_scene(self.mix)

    def run(self) -> Ran:
        """Until nothing is left to do, or until an invariant is broken."""
        broken = None
        try:
            while self._step():
                self.steps += 1
                self.monitor.must_end(self.steps)
            self.monitor.ended(attempts_left=self.attempts < self.mix.attempts_max)
        except Broken as found:
            broken = found
            self.tell("", "BROKEN", str(found))
        self.close()
        made = self.chooser.made
        return Ran(made, broken, self.steps, frozenset(self.seen), self.lines)

    def allows(self, kind: Kind) -> bool:
        """Whether the mix has one more of this kind."""
        return self.spent[kind] < self.mix.often.get(kind, 0)

    def tell(self, who: str, what: str, more: object = "", *, quiet: bool = False) -> None:
        """One line of the story."""
        if self.tells:
            seconds = self.scene.clock.monotonic()
            self.lines.append(Line(seconds, who, what, str(more), quiet=quiet))

    def from_outside(self, what: str, about: str = "", answer: object = None) -> None:
        """An operator or another tool did something; kept by whoever records the schedule."""

    def see(self, situation: str) -> None:
        """Count a situation for `sometimes`."""
        self.seen.add(situation)

    def live(self, actor: Actor) -> bool:
        """Whether a process still runs."""
        return actor.alive and actor.coroutine is not None

    def start(self, actor: Actor) -> None:
        """A new process begins, up to its first call, and runs from now on."""
        actor.started = self.steps
        self.actors.append(actor)
        self.current = actor
        self._go_on(actor, None)

    def poll(self) -> None:
        """A new worker polls what waits."""
        self.attempts += 1
        due = self.due_type()
        assert due is not None, "only polled when something is due"
        self.start(new_attempt(self.scene, self.attempts, due, self.seen))

    def due_type(self) -> str | None:
        """The task type of a row that may be polled now; None when nothing waits."""
        due = self.scene.conductor.state.due_queues()
        return due[0][0] if due else None

    def let_time_pass(self, seconds: float, silent: Sequence[Actor] = ()) -> None:
        """Move the clock; living processes beat, except the silent ones."""
        self._move_clock(self.scene.clock.elapsed + round(seconds * MICROSECONDS), silent)

    def kill(self, actor: Actor) -> None:
        """End a process where it stands; nothing of it runs any more."""
        actor.kill()
        if self.current is actor:
            self.current = None

    def holder(self, task_id: str) -> Actor | None:
        """The living process that was handed this row last."""
        for actor in reversed(self.actors):
            if actor.record is not None and actor.record.snapshot.task_id == task_id:
                return actor if self.live(actor) else None
        return None

    def _step(self) -> bool:
        """One move or one step of the running process; False when nothing is left."""
        current = self.current
        if current is None or not self.live(current) or current.standing:
            current = self.current = moves.next_by_default(self)
            if current is None:
                return self._idle()
        point = f"{current.name}:{current.steps}.{current.asked}"
        current.asked += 1
        chosen = self.chooser.move(point, lambda: moves.options(self))
        if chosen is not None:
            moves.take(self, chosen)
            return True
        current.asked = 0
        current.steps += 1
        self._advance(current)
        return True

    def _idle(self) -> bool:
        """Nothing runs: the moment for operators, gc and late requests, or for the default."""
        self.idles += 1
        chosen = self.chooser.move(f"idle:{self.idles}", lambda: moves.options(self), often=True)
        if chosen is None:
            return moves.idle(self)
        moves.take(self, chosen)
        return True

    def _advance(self, actor: Actor) -> None:
        """Answer the stop of a process."""
        match actor.stop:
            case PortCall() as call:
                self._call(actor, call)
            case Sleep(until):
                self._move_clock(until, ())
                actor.waited = True
                self._go_on(actor, None)
            case BodyRun(seconds):
                self.let_time_pass(seconds)
                self._body(actor)
            case None:
                self._go_on(actor, None)

    def _body(self, actor: Actor) -> None:
        fate = self._fate(actor, OLD_BODY_FATES if actor.old else BODY_FATES)
        if fate == "crash before":
            self.see("crashed in the body")
            self.kill(actor)
            return
        run = f"{actor.name}.{actor.steps}"
        end = body_end(run, fate)
        self.monitor.body_ran(actor, end)
        self.tell(actor.name, "its function", fate or f"writes {run}")
        self._go_on(actor, end)

    def _call(self, actor: Actor, call: PortCall) -> None:
        fate = self._fate(actor, READ_FATES if call.reads else WRITE_FATES)
        if fate is not None:
            self.tell(actor.name, call.operation, fate.upper())
            self.see(f"{call.operation}: {fate}")
        self._become(actor, call, fate)

    def _become(self, actor: Actor, call: PortCall, fate: str | None) -> None:
        """What becomes of a call, and what its sender hears of it."""
        text = f"{call.operation}: {fate}"
        match fate:
            case "crash before":
                self.kill(actor)
            case "refused" if call.operation == "branches.merge":
                self._go_on(actor, TooManyTries(text))
            case "refused":
                self._go_on(actor, UnavailableError(text))
            case "request lost":
                self._go_on(actor, OutcomeUnknownError(text))
            case "lands late":
                self.wire.append(Late(call, actor))
                self._go_on(actor, OutcomeUnknownError(text))
            case _:
                self._effect(actor, call, fate)

    def _effect(self, actor: Actor, call: PortCall, fate: str | None) -> None:
        """The server does it; then the sender hears of it, or not."""
        result, error = self.do(actor, call)
        actor.last_call = self.steps
        if call.operation in READS_OF_THE_ROW and error is None:
            actor.waited = False
        if fate == "crash after":
            self.kill(actor)
        elif fate == "answer lost":
            self._go_on(actor, OutcomeUnknownError(f"{call.operation}: answer lost"))
        else:
            self._go_on(actor, result if error is None else error)

    def do(self, actor: Actor, call: PortCall) -> tuple[object, Exception | None]:
        """Let the server take a request, and let the monitor see what it did."""
        result: object = None
        error: Exception | None = None
        self.monitor.before(actor, call)
        try:
            result = call.effect()
        except ServiceError as refusal:
            error = refusal
        if self.tells:
            self._tell_call(actor, call, error or result)
        self.monitor.after(actor, call, result, self.steps)
        return result, error

    def _tell_call(self, actor: Actor, call: PortCall, answer: object) -> None:
        """What moves a branch, decides or ends something stands alone; the rest is one line."""
        quiet = call.operation not in LOUD and not isinstance(answer, Exception)
        more = _told(answer)
        if call.operation == "tags.create" and answer is None:
            tags = list(self.scene.lakefs.repository(self.scene.repository.id).tags)
            more = tags[-1][:24]
        self.tell(actor.name, call.operation, more, quiet=quiet)

    def _fate(self, actor: Actor, fates: Weighted) -> str | None:
        if not self.allows(Kind.FAULT):
            return None
        fate = self.chooser.fate(f"{actor.name}:{actor.steps}", lambda: self._possible(fates))
        if fate is not None:
            self.spent[Kind.FAULT] += 1
        return fate

    def _possible(self, fates: Weighted) -> Weighted:
        without = self.mix.without_fates
        return [(name, weight) for name, weight in fates if name not in without]

    def _hear(self, actor: Actor, answer: object) -> None:
        if self.listens:
            actor.heard = hash((actor.heard, answer_as_number(answer)))

    def _go_on(self, actor: Actor, answer: object) -> None:
        self._hear(actor, answer)
        polled_before = actor.record
        try:
            actor.go_on(answer)
        except StopIteration:
            self._ended(actor)
            return
        except (ServiceError, PeragoError) as error:
            # gc and reset-task may end with an error of the servers; an attempt may not, except
            # for its poll.
            if actor.holds_a_row:
                raise Broken(8, f"{actor.name} let out {error!r}") from error
            self._ended(actor)
            return
        except Exception as error:
            actor.coroutine = None  # it has ended: to kill it as well would hide this error
            raise Broken(8, f"{actor.name} let out {error!r}") from error
        if isinstance(actor.stop, PortCall):
            actor.stop.after, actor.stop.asked = actor.last_call, self.scene.clock.monotonic()
            actor.stop.waited = actor.waited
        if self.mix.racy:  # a late write may have landed within this step
            self.monitor.rows_may_have_changed(self.steps)
        if polled_before is None and actor.record is not None:
            self.monitor.polled(actor, self.steps)
            self.tell(actor.name, "took", self.monitor.facts.in_words(actor.record))

    def _ended(self, actor: Actor) -> None:
        actor.coroutine, actor.alive = None, False
        if self.current is actor:
            self.current = None
        report = actor.report
        if report is not None:
            said = f"{report.status} {report.recorded} {report.error or ''}"
            self.tell(actor.name, "ended", said)
            self.monitor.attempt_ended(actor, report)
        else:
            self.tell(actor.name, "ended", "; ".join(actor.judged)[:120])
            self.monitor.removals.process_ended(actor)

    def _move_clock(self, moment: int, silent: Sequence[Actor]) -> None:
        clock = self.scene.clock
        passed = moment - clock.elapsed
        clock.move_to(moment)
        if passed < LATE_BEATS:
            return
        conductor = self.scene.conductor
        now = conductor.state.now_ms
        for run in conductor.state.runs.values():
            for row in run.open_rows():
                holder = self.holder(row.task_id)
                beats = holder is not None and not holder.standing and holder not in silent
                if row.status is AttemptStatus.IN_PROGRESS and beats:
                    row.update_time = now
        conductor.sweep()
        self.monitor.rows_may_have_changed(self.steps)

    def expire(self, silent: Sequence[Actor]) -> None:
        """More time passes than a lease is long."""
        self.let_time_pass(RESPONSE_SECONDS + 1, silent)

    @property
    def is_paused(self) -> bool:
        """Whether the workflow schedules nothing new."""
        return self.scene.workflow_status is WorkflowStatus.PAUSED

    def close(self) -> None:
        """End what still runs."""
        for actor in self.actors:
            if actor.coroutine is not None:
                self.kill(actor)


def body_end(run: str, fate: str | None) -> BodyEnd:
    """How a function ends."""
    return BodyEnd(
        run,
        writes=fate is None,
        raises=fate in {"raises", "raises terminally"},
        terminal=fate == "raises terminally",
        drained=fate == "drained",
    )


def answer_as_number(answer: object) -> int:
    """Equal answers, equal numbers, in every schedule of this program."""
    if isinstance(answer, OpenWrite):
        return 0
    return hash(repr(answer))


def _told(value: object) -> str:
    """An answer for the story: commits by their first digits, everything else by its kind."""
    if isinstance(value, Merged):
        return value.commit[:8]
    if isinstance(value, str):
        return value[:8]
    if isinstance(value, Exception):
        return f"{type(value).__name__} {value}"
    if value is None or isinstance(value, OpenWrite):
        return ""
    return type(value).__name__
