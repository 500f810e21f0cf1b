"""The moves of a schedule that are not a process going on: time, operators, others, new processes.

Each has a name that a replayed list finds again. The default moves at the end keep a schedule going
when the running process has ended; everything else happens only where a chooser wants it.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from tests.simulation.actors import Actor, new_abandon, new_pass, new_reset
from tests.simulation.choices import Weighted
from tests.simulation.invariants import broken
from tests.simulation.mix import Foreign, Kind, Verb
from tests.simulation.others import commit_by_others, is_run_branch, source_for
from tests.simulation.scene import Scene

from perago.domain.attempt import AttemptStatus
from perago.domain.fence import FENCE_VERSION
from perago.domain.names import RUN_BRANCH_PREFIX
from perago.domain.run import History, OnMoved, key_of_run
from perago.ports.errors import RequestRefusedError

if TYPE_CHECKING:
    from tests.simulation.engine import Engine

    from perago.adapters.memory.conductor_rows import TaskRow

WEEK_SECONDS = 8 * 24 * 3600.0
STANDS_STILL = "stands still"
POLL = "a worker polls"
EXPIRES = "the lease expires of "
GOES_ON = "goes on: "
LANDS = "a late request lands"
WRITES = "Conductor writes late"
BEATS = "a beat is read of "
REQUEUES = "every open row is queued again"
COMMITS = "others: "
OPERATOR = "operator: "
GC = "gc begins"
RESET = "reset-task begins"
ABANDON = "abandon begins"
WEEK = "eight days pass"
CHANGES = "a file of a dead worker is changed"
NEW_HEAD = "inputs resolve to the current head"
FIRST_TASK = "t"
OPERATORS_REASON = "operator"
OTHER_PARAMS = {"knob": 7}
NEW_KNOB = "inputs resolve to other params"


def options(engine: "Engine") -> Weighted:
    """Every move that is possible now, with its weight."""
    return [(name, weight) for name, weight in _possible(engine) if weight > 0]


def _possible(engine: "Engine") -> list[tuple[str, float]]:
    current, found = engine.current, list[tuple[str, float]]()
    live = [actor for actor in engine.actors if engine.live(actor)]
    found += [(f"{GOES_ON}{actor.name}", 1.0) for actor in live if actor is not current]
    if current is not None and current.holds_a_row and engine.allows(Kind.STAND):
        found.append((STANDS_STILL, 3.0))
    if engine.attempts < engine.mix.attempts_max:
        if engine.due_type() is not None:
            found.append((POLL, 3.0))
        found += [(f"{EXPIRES}{actor.name}", weight) for actor, weight in _expirable(engine)]
    if engine.wire:
        found.append((LANDS, 2.0))
    for kind, names in _surroundings(engine):
        if engine.allows(kind):
            found += [(name, 2.0 / len(names)) for name in names]
    return found + (_of_a_racy_conductor(engine) if engine.mix.racy else [])


def _of_a_racy_conductor(engine: "Engine") -> list[tuple[str, float]]:
    found = [(WRITES, 3.0)] if engine.scene.conductor.open_writes else []
    if engine.allows(Kind.BEAT):
        found += [(f"{BEATS}{actor.name}", 1.0) for actor, _ in _expirable(engine)]
    return found


def _expirable(engine: "Engine") -> list[tuple[Actor, float]]:
    found: list[tuple[Actor, float]] = []
    for row in _open_rows(engine):
        holder = engine.holder(row)
        if holder is None:
            continue
        if holder.standing:
            found.append((holder, 4.0))
        elif engine.allows(Kind.EXPIRE):
            found.append((holder, 1.0))
    return found


def _surroundings(engine: "Engine") -> list[tuple[Kind, list[str]]]:
    mix = engine.mix
    found = [
        (Kind.REQUEUE, [REQUEUES] if _open_rows(engine) else []),
        (Kind.VERB, [f"{OPERATOR}{verb.value}" for verb in mix.verbs if _fits(engine, verb)]),
        (Kind.FOREIGN, [f"{COMMITS}{each.value}" for each in mix.foreign]),
        (Kind.ANEW, [NEW_HEAD, NEW_KNOB]),
        (Kind.GC, [GC]),
        (Kind.RESET, [RESET]),
        (Kind.ABANDON, [ABANDON] if _runs(engine) else []),
        (Kind.WEEK, [WEEK]),
        (Kind.DISK, [CHANGES] if engine.scene.host.ownerless_outcomes() else []),
    ]
    return [(kind, names) for kind, names in found if names]


def _fits(engine: "Engine", verb: Verb) -> bool:
    terminal = engine.scene.workflow_is_terminal
    # An operator waits for the end of his own `perago reset-task`: it says that it was in vain
    # where the workflow was brought back meanwhile.
    waits = any(engine.live(actor) and actor.name.startswith("reset") for actor in engine.actors)
    match verb:
        case Verb.TERMINATE:
            return not terminal
        case Verb.PAUSE:
            return not terminal and not engine.is_paused
        case Verb.RESUME:
            return engine.is_paused
        case Verb.RERUN | Verb.RERUN_OTHER:
            return terminal and not waits and _newest_row(engine) is not None
        case Verb.RETRY | Verb.RESTART:
            return terminal and not waits


def take(engine: "Engine", name: str) -> None:
    """Make a move by its name."""
    for start, act in _ACTIONS:
        if name.startswith(start):
            act(engine, name.removeprefix(start))
            return
    raise AssertionError(name)


def _stand_still(engine: "Engine", _: str) -> None:
    assert engine.current is not None, "only a running process stands still"
    engine.spent[Kind.STAND] += 1
    engine.current.standing = True
    engine.tell(engine.current.name, STANDS_STILL)
    engine.see(f"stood still before {_next_call(engine.current)}")
    engine.current = None


def _next_call(actor: Actor) -> str:
    return getattr(actor.stop, "operation", "its function")


def _go_on(engine: "Engine", name: str) -> None:
    actor = next(actor for actor in engine.actors if actor.name == name)
    if actor.standing:
        engine.tell(name, "goes on, not knowing that time has passed")
    actor.standing = False
    engine.current = actor


def _poll(engine: "Engine", _: str) -> None:
    engine.poll()


def _expire(engine: "Engine", name: str) -> None:
    actor = next(actor for actor in engine.actors if actor.name == name)
    if not actor.standing:
        engine.spent[Kind.EXPIRE] += 1
    engine.tell("conductor", f"the lease of {name} expires")
    engine.see("a lease expired while its process lived")
    engine.expire([actor])


def _land(engine: "Engine", _: str) -> None:
    late = engine.wire.pop(0)
    late.call.late = True
    dead = not engine.live(late.sender)
    engine.tell("wire", f"a late request of {late.sender.name} lands")
    engine.see(f"{late.call.operation} landed late" + (", its sender dead" if dead else ""))
    engine.do(late.sender, late.call)


def _write(engine: "Engine", _: str) -> None:
    engine.tell("conductor", "writes a row that it read before")
    engine.see("Conductor wrote a row late")
    engine.scene.conductor.open_writes[0].land()
    engine.monitor.rows_may_have_changed(engine.steps)


def _beat(engine: "Engine", name: str) -> None:
    engine.spent[Kind.BEAT] += 1
    actor = next(actor for actor in engine.actors if actor.name == name)
    assert actor.record is not None, "only attempts beat"
    engine.tell("conductor", f"reads the row of {name} for a beat, and will write it")
    engine.see("a beat was read and written later")
    engine.scene.conductor.begin_extend_lease(actor.record.snapshot)


def _requeue(engine: "Engine", _: str) -> None:
    engine.spent[Kind.REQUEUE] += 1
    engine.tell("operator", REQUEUES)
    for row in {run.spec["name"]: run for run in _rows(engine)}:
        engine.scene.conductor.requeue(str(row))
    engine.from_outside(REQUEUES)


def _gc(engine: "Engine", _: str) -> None:
    engine.spent[Kind.GC] += 1
    engine.passes += 1
    engine.tell(f"gc{engine.passes}", "begins")
    engine.start(new_pass(engine.scene, engine.passes))


def _reset(engine: "Engine", _: str) -> None:
    engine.spent[Kind.RESET] += 1
    engine.passes += 1
    engine.see("reset-task ran")
    engine.monitor.was_reset()
    engine.start(new_reset(engine.scene, engine.passes, FIRST_TASK))


def _abandon(engine: "Engine", _: str) -> None:
    engine.spent[Kind.ABANDON] += 1
    engine.passes += 1
    engine.see("abandon ran")
    key = key_of_run(_runs(engine)[-1])
    assert key is not None, "a run branch is named by its key"
    engine.start(new_abandon(engine.scene, engine.passes, key))


def _runs(engine: "Engine") -> list[str]:
    names = engine.scene.lakefs.repository(engine.scene.repository_id).branches
    return [name for name in names if name.startswith(RUN_BRANCH_PREFIX)]


def _week(engine: "Engine", _: str) -> None:
    engine.spent[Kind.WEEK] += 1
    engine.tell("", WEEK)
    engine.let_time_pass(WEEK_SECONDS)


def _change(engine: "Engine", _: str) -> None:
    engine.spent[Kind.DISK] += 1
    engine.tell("", CHANGES)
    engine.see(CHANGES)
    engine.scene.host.change()


def _new_head(engine: "Engine", _: str) -> None:
    engine.spent[Kind.ANEW] += 1
    scene = engine.scene
    head = scene.repository.head().commit
    engine.tell("", NEW_HEAD, head[:8])
    _change_input(engine, workspace=scene.workspace(head))


def _new_knob(engine: "Engine", _: str) -> None:
    engine.spent[Kind.ANEW] += 1
    engine.tell("", NEW_KNOB)
    changed: dict[str, object] = {"knob": engine.spent[Kind.ANEW]}
    if engine.mix.shape.has_runs:
        changed |= {"on_moved": OnMoved.REFUSE, "history": History.SQUASH}
    _change_input(engine, **changed)


def _change_input(engine: "Engine", **changes: object) -> None:
    run = engine.scene.conductor.state.runs[engine.scene.workflow]
    run.input_data = {**run.input_data, **changes}


def _verb(engine: "Engine", name: str) -> None:
    engine.spent[Kind.VERB] += 1
    verb = Verb(name)
    scene = engine.scene
    engine.tell("operator", name)
    engine.see(f"{OPERATOR}{name}")
    task_id = _newest_row(engine) or ""
    done = operate(scene, verb, task_id)
    if done and verb in {Verb.RERUN, Verb.RERUN_OTHER}:
        engine.monitor.facts.was_rerun(task_id)
    engine.from_outside(f"{OPERATOR}{name}", answer=done)
    engine.monitor.rows_may_have_changed(engine.steps)


def _newest_row(engine: "Engine") -> str | None:
    """The row from which an operator runs again; None while its task was never scheduled."""
    wanted = engine.mix.rerun_from
    found = (row.task_id for row in reversed(_rows(engine)) if row.reference_name == wanted)
    return next(found, None)


def operate(scene: Scene, verb: Verb, task_id: str) -> bool:
    """What an operator does; False where the workflow is not in a state for it.

    A rerun starts from the newest row of the first task, which the caller names.
    """
    conductor, workflow = scene.conductor, scene.workflow
    with suppress(RequestRefusedError):
        match verb:
            case Verb.TERMINATE:
                conductor.terminate(workflow, OPERATORS_REASON)
            case Verb.RETRY:
                conductor.retry(workflow)
            case Verb.RERUN:
                conductor.rerun(workflow, task_id, None)
            case Verb.RERUN_OTHER:
                head = scene.workspace(scene.repository.head().commit)
                conductor.rerun(workflow, task_id, {"workspace": head, "params": OTHER_PARAMS})
            case Verb.RESTART:
                conductor.restart(workflow)
            case Verb.PAUSE:
                conductor.pause(workflow)
            case Verb.RESUME:
                conductor.resume(workflow)
        return True
    return False


def _foreign(engine: "Engine", name: str) -> None:
    engine.spent[Kind.FOREIGN] += 1
    kind = Foreign(name)
    count = engine.spent[Kind.FOREIGN]
    source = source_for(engine, kind)
    commit = commit_by_others(engine.scene.repository, kind, count, source)
    engine.from_outside(f"{COMMITS}{name}", f"{count} {source}", commit)
    if commit is not None:
        mix = engine.scene.mix
        by_hand = kind in {Foreign.HAND_MERGE, Foreign.HAND_MERGE_OF_RUN}
        if by_hand and mix.fenced and mix.fence_version == FENCE_VERSION:
            broken(mix, 23 if is_run_branch(source) else 17, f"{source} was merged by hand")
        engine.tell("others", name, commit[:8])
        engine.see(f"others: {name}")
        if kind is not Foreign.ON_RUN:
            engine.monitor.others_committed(commit)
    elif kind is Foreign.HAND_MERGE_OF_RUN and source:
        engine.see("others: a merge of a run branch was refused")


_ACTIONS: tuple[tuple[str, Callable[["Engine", str], None]], ...] = (
    (STANDS_STILL, _stand_still),
    (GOES_ON, _go_on),
    (POLL, _poll),
    (EXPIRES, _expire),
    (LANDS, _land),
    (WRITES, _write),
    (BEATS, _beat),
    (REQUEUES, _requeue),
    (OPERATOR, _verb),
    (COMMITS, _foreign),
    (GC, _gc),
    (RESET, _reset),
    (ABANDON, _abandon),
    (WEEK, _week),
    (CHANGES, _change),
    (NEW_HEAD, _new_head),
    (NEW_KNOB, _new_knob),
)


def next_by_default(engine: "Engine") -> Actor | None:
    """The process that goes on when the running one has ended; the newest first."""
    for actor in reversed(engine.actors):
        if engine.live(actor) and not actor.standing:
            return actor
    return None


def idle(engine: "Engine") -> bool:
    """Nothing runs: what happens next, in this order; False at the end of the schedule."""
    if engine.is_paused:
        engine.scene.conductor.resume(engine.scene.workflow)
        engine.tell("operator", "resume")
        engine.from_outside(f"{OPERATOR}{Verb.RESUME.value}", answer=True)
        engine.monitor.rows_may_have_changed(engine.steps)
        return True
    if engine.attempts < engine.mix.attempts_max and _next_attempt(engine):
        return True
    for actor in engine.actors:
        if engine.live(actor):
            _go_on(engine, actor.name)
            return True
    if engine.scene.conductor.open_writes:
        _write(engine, "")
        return True
    if engine.wire:
        _land(engine, "")
        return True
    return False


def _next_attempt(engine: "Engine") -> bool:
    """A worker polls, or time passes until one can."""
    if engine.due_type() is not None:
        engine.poll()
        return True
    state = engine.scene.conductor.state
    due = min(state.queued_times_ms(), default=None)
    if due is not None and due > state.now_ms and any(_unfinished_rows(engine)):
        engine.let_time_pass((due - state.now_ms) / 1000)
        return True
    # A late beat can bring a row back to life in a workflow that has ended: nothing ends it there.
    ended = engine.scene.workflow_is_terminal
    if not ended and any(_held_by_nothing(engine, row) for row in _with_lease(engine)):
        engine.tell("conductor", "time passes, a lease expires")
        engine.expire([])
        return True
    return False


def _held_by_nothing(engine: "Engine", task_id: str) -> bool:
    holder = engine.holder(task_id)
    return holder is None or holder.standing


def _open_rows(engine: "Engine") -> list[str]:
    """The ids of rows that workers hold."""
    return [row.task_id for row in _rows(engine) if row.status is AttemptStatus.IN_PROGRESS]


def _with_lease(engine: "Engine") -> list[str]:
    """The same without rows that a retry has made good: Conductor lets no lease of them expire."""
    open_rows = set(_open_rows(engine))
    return [row.task_id for row in _rows(engine) if row.task_id in open_rows and not row.retried]


def _unfinished_rows(engine: "Engine") -> list[str]:
    """The same, and of rows that wait in the queue: one that was handed back waits a while."""
    return [row.task_id for row in _rows(engine) if not row.status.is_terminal]


def _rows(engine: "Engine") -> list["TaskRow"]:
    run = engine.scene.conductor.state.runs[engine.scene.workflow]
    return [row for row in run.rows.values() if row.is_queued_type]
