"""Two servers of one kind, the in-memory one and a real one, given the same operations for a time.

Decides how answers are told so that they can be compared, how long a machine runs, and what it must
have done before a run counts. Must not know which server is right, and no operation.
"""

import asyncio
import sys
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from itertools import count
from typing import Any, Concatenate, Generic, TypeAlias, TypeVar, cast

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from perago.ports.errors import OutcomeUnknownError, ServiceError, UnavailableError
from perago.ports.objects import ObjectEntry

Result = TypeVar("Result")
Side = TypeVar("Side")
Step: TypeAlias = Callable[Concatenate[Side, ...], Awaitable[object]]
EXAMPLES_MAX = 9  # of one seed: from ten on hypothesis makes a tenth of them small
DIFFERENCES_SHOWN = 10


class DivergenceError(AssertionError):
    """The two servers answered one operation differently."""


class TimeIsUp(BaseException):
    """The run is over.

    No `Exception`, as a Ctrl-C is none: hypothesis would take it for a failure and shrink it.
    """


class Teller(ABC):
    """Tells answers of one server in words that both share: ids become numbers in order of age."""

    # What differs between two servers without meaning anything.
    untold: frozenset[str] = frozenset()

    @abstractmethod
    def name_of(self, fact: str, text: str) -> object:
        """The common name of a text that stands under `fact`."""

    def told(self, value: object, fact: str = "") -> object:
        """The answer without what may differ."""
        match value:
            case str():
                return self.name_of(fact, value)
            case ObjectEntry():
                return (ObjectEntry.__name__, self._facts(value._asdict()))
            case tuple() | list():
                return [self.told(item, fact) for item in cast("Sequence[object]", value)]
            case Mapping():
                pairs = cast("Mapping[str, object]", value).items()
                return {str(self.told(name)): self.told(item, name) for name, item in pairs}
            case _ if is_dataclass(value):
                facts = {each.name: getattr(value, each.name) for each in fields(value)}
                return (type(value).__name__, self._facts(facts))
            case _:
                return value

    def _facts(self, facts: Mapping[str, object]) -> dict[str, object]:
        return {
            name: self.told(value, name) for name, value in facts.items() if name not in self.untold
        }


async def outcome_of(asked: Awaitable[object], tell: Callable[[object], object]) -> object:
    """The answer as it is told, or the kind of the error; no answer at all breaks the run."""
    try:
        answer = await asked
    except (OutcomeUnknownError, UnavailableError):
        raise
    except ServiceError as error:
        return type(error).__name__
    return tell(answer)


def differences(fake: object, real: object, place: str = "") -> Iterator[str]:
    """Where two answers differ, each with both sides."""
    if isinstance(fake, Mapping) and isinstance(real, Mapping) and fake.keys() == real.keys():
        one, other = cast("Mapping[str, object]", fake), cast("Mapping[str, object]", real)
        for name in one:
            yield from differences(one[name], other[name], f"{place}.{name}")
    elif isinstance(fake, list | tuple) and isinstance(real, list | tuple):
        ones, others = cast("Sequence[object]", fake), cast("Sequence[object]", real)
        if len(ones) != len(others):
            yield f"{place}: {len(ones)} in memory, {len(others)} on the server\n  {fake}\n  {real}"
        for number, (one_of, other_of) in enumerate(zip(ones, others, strict=False)):
            yield from differences(one_of, other_of, f"{place}[{number}]")
    elif fake != real:
        yield f"{place}: {fake!r} in memory, {real!r} on the server"


class Operations(Generic[Side]):
    """What a machine does: functions of one side, each with what may be drawn for it."""

    def __init__(self) -> None:
        self._drawn: list[st.SearchStrategy[Operation[Side]]] = []
        self.names: set[str] = set()

    def add(
        self, *, weight: int = 1, **drawn: st.SearchStrategy[Any]
    ) -> Callable[[Step[Side]], Step[Side]]:
        """Add a function; one of twice the weight is drawn twice as often."""

        def added(step: Step[Side]) -> Step[Side]:
            name = step.__name__
            self.names.add(name)
            # One strategy for each: of the same one twice hypothesis takes only the first.
            self._drawn += [
                st.builds(Operation, st.just(name), st.just(step), st.fixed_dictionaries(drawn))
                for _ in range(weight)
            ]
            return step

        return added

    def any(self) -> "st.SearchStrategy[Operation[Side]]":
        """One of them."""
        return st.one_of(self._drawn)


@dataclass(frozen=True, slots=True, repr=False)
class Operation(Generic[Side]):
    """One operation with what was drawn for it."""

    name: str
    step: "Step[Side]"
    drawn: Mapping[str, Any]

    def __repr__(self) -> str:
        drawn = ", ".join(f"{name}={value!r}" for name, value in self.drawn.items())
        return f"{self.name}({drawn})"


@dataclass
class Run:
    """One run of a machine: its loop, its end, and what it did."""

    runner: asyncio.Runner
    ends_at: float
    gives_up_at: float
    is_enough: Callable[[Counter[str]], bool]
    operations: Counter[str] = field(default_factory=Counter[str])
    is_over: bool = False
    seed: int = 0
    found: str = ""

    def do(self, awaited: Awaitable[Result]) -> Result:
        """Wait for one thing."""

        async def done() -> Result:
            return await awaited

        return self.runner.run(done())

    def compare(self, operation: str, fake: object, real: object, *, counts: bool = True) -> None:
        """Count an operation; both told the same, or the run has found something."""
        if not self.found:  # what shrinking repeats is no history of its own
            self.operations[operation] += counts
        if found := list(differences(fake, real, operation)):
            again = f"again: PERAGO_FIDELITY_SEED={self.seed}"
            is_first = not self.found
            self.found = "\n".join((*found[:DIFFERENCES_SHOWN], again))
            if is_first:  # shrinking takes minutes, and may lose it
                sys.stdout.write(f"\nfirst seen: {self.found}\n")
                sys.stdout.flush()
            raise DivergenceError(self.found)

    def check_time(self) -> None:
        """End the run when its time is up, but not while a divergence is being shrunk.

        A busy machine gets more time until enough was done, within a bound.
        """
        now = time.monotonic()
        if self.found or now < self.ends_at:
            return
        if now > self.gives_up_at or self.is_enough(self.operations):
            self.is_over = True
            raise TimeIsUp

    @property
    def total(self) -> int:
        """How many operations both servers answered."""
        return self.operations.total()


def explore(
    machine: Callable[[], RuleBasedStateMachine], run: Run, *, steps: int, first_seed: int
) -> None:
    """Run examples of a machine until the time is up; a divergence is shrunk and raised."""

    def begin() -> RuleBasedStateMachine:
        run.check_time()
        return machine()

    chosen = settings(
        max_examples=EXAMPLES_MAX,
        stateful_step_count=steps,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=cast("list[HealthCheck]", list(HealthCheck)),
        report_multiple_bugs=False,
    )
    for run.seed in count(first_seed):
        # Any callable will do; the annotation of hypothesis says a class.
        factory = cast("type[RuleBasedStateMachine]", seed(run.seed)(begin))
        try:
            run_state_machine_as_test(factory, settings=chosen)
        except BaseException as error:
            # hypothesis may cover the end with words about an example that it could not finish
            if run.is_over:
                return
            if run.found:
                # Also where hypothesis could not repeat it, on a server that has moved on.
                raise DivergenceError(run.found) from error
            raise
