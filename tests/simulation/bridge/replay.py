"""Replays a transcript: processes are held at every call until the transcript lets it through.

A step that goes another way than it was recorded ends the replay: what comes later means nothing.
"""

from inspect import isawaitable
from typing import final

from tests.simulation.actors import (
    ABANDON,
    GC,
    RESET,
    Actor,
    new_abandon,
    new_attempt,
    new_pass,
    new_reset,
)
from tests.simulation.bridge.memory_stage import HeldStage
from tests.simulation.bridge.outcome import ends_of, has_open_join, outcome_of
from tests.simulation.bridge.steps import (
    BEGINS,
    ITS_FUNCTION,
    LANDS,
    NOBODY,
    SLEEPS,
    TIME,
    TURNS,
    Outcome,
    Step,
    Transcript,
    in_words,
)
from tests.simulation.bridge.words import Words
from tests.simulation.engine import Late, body_end
from tests.simulation.mix import Foreign, Verb
from tests.simulation.moves import COMMITS, FIRST_TASK, OPERATOR, REQUEUES
from tests.simulation.steering import BodyRun, PortCall, Sleep

from perago.domain.errors import PeragoError
from perago.domain.outcome import TooManyTries
from perago.domain.run import RunKey
from perago.ports.errors import OutcomeUnknownError, ServiceError, UnavailableError

STORY_LINES = 12
CONTEXT = 60
NOTHING = "[]"


class StumbledError(Exception):
    """A server did not answer although the transcript plans no fault: this run says nothing."""


class Diverged(Exception):  # noqa: N818 - what was found, not a mistake of the code that raises it
    """A step went another way than in memory."""

    def __init__(self, transcript: Transcript, position: int, found: object) -> None:
        before = in_words(transcript.steps[max(0, position - STORY_LINES) : position])
        told = differences(repr(transcript.steps[position]), repr(found))
        super().__init__(f"{transcript.name}, step {position}\n{before}\n{told}")


def differences(expected: str, found: str) -> str:
    """Two long texts from shortly before the place where they differ."""
    same = next(
        (at for at, pair in enumerate(zip(expected, found, strict=False)) if len(set(pair)) > 1), 0
    )
    start = max(0, same - CONTEXT)
    return f"in memory: ...{expected[start:]}\nfound:     ...{found[start:]}"


@final
class Replay:
    """One transcript on one stage."""

    def __init__(self, stage: HeldStage, transcript: Transcript, words: Words) -> None:
        self._stage, self._transcript, self._words = stage, transcript, words
        self._actors: dict[str, Actor] = {}
        self._wire: list[Late] = []
        self._words.of(stage.input)

    async def run(self) -> Outcome:
        """Every step, then what is left."""
        for position, step in enumerate(self._transcript.steps):
            await self._stage.keep_leases()
            try:
                found = await self._do(step)
            except _OtherStop as other:
                raise Diverged(self._transcript, position, other) from other
            if found != step:
                raise Diverged(self._transcript, position, found)
        for actor in self._actors.values():
            if actor.coroutine is not None:
                actor.kill()
        stage = self._stage
        await self._come_to_rest()
        place = (stage.repository_id, stage.input, stage.workflow)
        left = await outcome_of(stage.lakefs_ports, stage.conductor_ports, place, self._words)
        return {**left, "processes": ends_of([*self._actors.values()], self._words)}

    async def _come_to_rest(self) -> None:
        """Wait for what a server does by itself in the end, such as a JOIN."""
        expected = self._transcript.outcome["workflow"]
        queue, workflow = self._stage.conductor_ports.queue, self._stage.workflow
        run = await queue.read_workflow(workflow)
        while run is not None and (run.status != expected or has_open_join(run)):
            if not await self._stage.waits():
                return  # what is still missing is told as a difference
            run = await queue.read_workflow(workflow)

    async def _do(self, step: Step) -> Step:
        match step.what:
            case _ if step.who == NOBODY:
                return await self._outside(step)
            case str() if step.what == BEGINS:
                self._begin(step)
            case str() if step.what == ITS_FUNCTION:
                self._function(self._at(step, BodyRun), step)
            case str() if step.what == SLEEPS:
                self._answer(self._at(step, Sleep), None)
            case str() if step.what == TURNS:
                self._answer(self._at(step, type(None)), None)
            case _ if step.how == LANDS:
                late = self._wire.pop(0)
                answer, error = await self._effect(late.call, step)
                return Step(late.sender.name, late.call.operation, LANDS, self._told(answer, error))
            case _:
                return await self._call(self._at(step, PortCall), step)
        return step

    async def _outside(self, step: Step) -> Step:
        stage, answer = self._stage, step.answer
        if step.what == TIME:
            await stage.let_time_pass(int(step.how), self._words.id_of(step.answer).split())
        elif step.what == REQUEUES:
            await stage.requeue()
        elif step.what.startswith(OPERATOR):
            done = await stage.operate(Verb(step.what.removeprefix(OPERATOR)))
            answer = self._words.of(done)
        else:
            count, _, source = self._words.id_of(step.how).partition(" ")
            kind = Foreign(step.what.removeprefix(COMMITS))
            answer = self._words.of(await stage.commit(kind, int(count), source))
        return Step(NOBODY, step.what, step.how, answer)

    def _begin(self, step: Step) -> None:
        number = int("".join(filter(str.isdigit, step.who)))
        match step.how:
            case str() if step.how == GC:
                actor = new_pass(self._stage, number)
            case str() if step.how == RESET:
                actor = new_reset(self._stage, number, FIRST_TASK)
            case str() if step.how == ABANDON:
                actor = new_abandon(self._stage, number, RunKey(self._words.id_of(step.about)))
            case purpose:
                name = next(name for name in self._stage.tasks if self._words.of(name) == purpose)
                actor = new_attempt(self._stage, number, name, set())
        self._actors[actor.name] = actor
        self._answer(actor, None)

    def _at(self, step: Step, kind: type) -> Actor:
        """The process of a step, which has to stand where it stood."""
        actor = self._actors[step.who]
        stop = actor.stop
        same = isinstance(stop, kind) and actor.coroutine is not None
        if not same or (isinstance(stop, PortCall) and stop.operation != step.what):
            raise _OtherStop(actor)
        return actor

    def _function(self, actor: Actor, step: Step) -> None:
        if step.how == "crash before":
            actor.kill()
        else:
            self._answer(actor, body_end(step.answer, step.how or None))

    async def _call(self, actor: Actor, step: Step) -> Step:
        call = actor.stop
        assert isinstance(call, PortCall)
        about, answer = self._words.of(call.about), ""
        text = f"{call.operation}: {step.how}"
        match step.how:
            case "crash before":
                actor.kill()
            case "refused" if call.operation == "branches.merge":
                self._answer(actor, TooManyTries(text))
            case "refused":
                self._answer(actor, UnavailableError(text))
            case "request lost":
                self._answer(actor, OutcomeUnknownError(text))
            case "lands late":
                self._wire.append(Late(call, actor))
                self._answer(actor, OutcomeUnknownError(text))
            case _:
                result, error = await self._effect(call, step)
                answer = self._told(result, error)
                if answer == step.answer:  # else it is reported before anything follows from it
                    self._hear(actor, step.how, result, error)
        return Step(actor.name, call.operation, step.how, answer, about)

    def _hear(self, actor: Actor, fate: str, result: object, error: Exception | None) -> None:
        if fate == "crash after":
            actor.kill()
        elif fate == "answer lost":
            operation = getattr(actor.stop, "operation", "")
            self._answer(actor, OutcomeUnknownError(f"{operation}: answer lost"))
        else:
            self._answer(actor, result if error is None else error)

    async def _effect(self, call: PortCall, step: Step) -> tuple[object, Exception | None]:
        try:
            result = await _sent(call)
            # A real queue may hand out nothing at once: what it held was the message of a row that
            # has ended meanwhile, or a row that is queued again becomes visible a moment later.
            while result == () and step.answer != NOTHING and await self._stage.waits():
                result = await _sent(call)
        except (OutcomeUnknownError, UnavailableError) as stumble:
            raise StumbledError(f"{step.who} {call.operation}: {stumble}") from stumble
        except ServiceError as refusal:
            return None, refusal
        return self._words.in_order(result), None

    def _told(self, result: object, error: Exception | None) -> str:
        return self._words.of(error or result)

    def _answer(self, actor: Actor, answer: object) -> None:
        # gc and reset-task may end with an error of the servers, as the engine says.
        try:
            actor.go_on(answer)
        except (StopIteration, ServiceError, PeragoError):
            actor.coroutine, actor.alive = None, False


async def _sent(call: PortCall) -> object:
    result = call.effect()
    return await result if isawaitable(result) else result


class _OtherStop(Exception):  # noqa: N818 - found, and told as a divergence
    """A process stands elsewhere than in memory."""

    def __init__(self, actor: Actor) -> None:
        ended = f"ended with {actor.report}" if actor.report else "ended"
        super().__init__(f"{actor.name} {actor.stop if actor.coroutine else ended}")
