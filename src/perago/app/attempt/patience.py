"""Waiting for a service that is away, so that nothing that was done has to be done again.

A task function of six hours must not run again because lakeFS was restarted when it ended. So every
step that gets no answer waits, looks whether its request arrived all the same, and only then sends
it again. It waits until the row can no longer be this attempt's, but not longer than
`PERAGO_PATIENCE`; a drain and the loss of the attempt end the waiting earlier.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Protocol, TypeVar, cast, final

from perago.domain.hand_back import Cause
from perago.ports.asking import Repetitions, heard_by
from perago.ports.errors import OutcomeUnknownError, ServiceError, UnavailableError, is_away
from perago.ports.system import Clock
from perago.ports.task_body import BodyStopped, Lease
from perago.ports.workspace import Phase, Progress

Answer = TypeVar("Answer")
Ports = TypeVar("Ports")

LAKEFS = "lakeFS"
CONDUCTOR = "Conductor"
QUEUE = "queue"
# The first pause is short, because one lost connection is no outage. The longest is what an attempt
# loses after the service has come back. All of it is left to chance (full jitter): hundreds of
# attempts lose the service at the same moment and would come back at the same moment.
FIRST_PAUSE_SECONDS = 0.2
PAUSE_SECONDS_MAX = 5.0
# A shorter wait is over before an operator could look. So only its end is an event, and the worker
# polls on as before.
UNREPORTED_SECONDS_MAX = 1.0
# Adapters repeat single requests for objects by themselves. A store that throttles makes them do so
# for seconds, again and again, and each of these would be two lines in the log of the task.
UNREPORTED_REPETITIONS_SECONDS_MAX = 5.0
# Calls that may be made again as they are: reads, and work whose repetition changes nothing. Every
# other call needs a look of its own, for example `commit_on_private_branch`.
REPEATED: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "branches": frozenset({"head", "list_page", "is_protected"}),
        "commits": frozenset({"read", "first_parents", "diff_page", "uncommitted_page"}),
        "tags": frozenset({"read", "list_page"}),
        # An attempt deletes objects on its own branch only, and an absent object is no error.
        "objects": frozenset({"list_page", "read", "delete_many"}),
        # A plan is made from the disk, by Spark jobs where Spark moves the workspace.
        "pipeline": frozenset({"plan", "verify"}),
        # A canary makes branches of its own each time.
        "trust": frozenset({"file", "proven"}),
        "known": frozenset({"check"}),
        QUEUE: frozenset({"in_progress", "last_polls", "read_attempt", "read_workflow", "waiting"}),
    }
)


class StopOrder(Protocol):
    """The order for one attempt: a drain is over its grace, or the attempt no longer counts."""

    async def before_end_of(self, work: Awaitable[Answer]) -> Answer | BodyStopped:
        """Wait for work; when the order comes first, the work is cancelled and awaited."""
        ...


@final
class NoStopOrder(StopOrder):
    """For attempts that no order stops, such as a trial."""

    async def before_end_of(self, work: Awaitable[Answer]) -> Answer | BodyStopped:
        """The answer."""
        return await work


@dataclass(frozen=True, slots=True)
class PatienceTerms:
    """How long one attempt waits, how time passes meanwhile, and what is told of it.

    Its row is its own for `lease_seconds` after the last beat, or after it `began` where nothing
    beats; 0 is a row without a response time-out, or no row at all.
    """

    clock: Clock
    fraction: Callable[[], float]
    seconds_max: float
    progress: Progress
    lease: Lease | None = None
    lease_seconds: float = 0.0
    began: float = 0.0
    stop_order: StopOrder = field(default_factory=NoStopOrder)
    lakefs_is_away: Callable[[Exception], None] = lambda _: None

    @property
    def row_until(self) -> float:
        """The moment from which Conductor may count the row as timed out."""
        if self.lease_seconds <= 0:
            return float("inf")
        beat = None if self.lease is None else self.lease.last_beat
        return (self.began if beat is None else beat) + self.lease_seconds

    async def rest(self, seconds: float) -> BodyStopped | None:
        """Let time pass; why, if the attempt was told to stop."""
        return await self.stop_order.before_end_of(self.clock.sleep(seconds))


@dataclass(slots=True)
class Wait:
    """One call that waits: for what, since when, and how often it failed."""

    service: str
    what: str
    began: float
    failures: int = 0
    reported: bool = False
    unreported_seconds_max: float = UNREPORTED_SECONDS_MAX

    def report(self, progress: Progress, now: float, error: str) -> bool:
        """Report a wait that lasts, once; whether this was the time."""
        if self.reported or now - self.began < self.unreported_seconds_max:
            return False
        self.reported = True
        facts = {"service": self.service, "waited_for": self.what, "error": error}
        progress.phase(Phase.WAITING, facts)
        return True

    def end(self, progress: Progress, now: float) -> None:
        """Report how long it was."""
        seconds = round(now - self.began, 3)
        facts = {"service": self.service, "waited_for": self.what, "waited_seconds": seconds}
        facts |= {"failures": self.failures, "lasted": self.reported}
        progress.phase(Phase.WAITED, facts)


@final
class Patience:
    """The patience of one attempt; without terms there is none, and every failure is final.

    `waits` counts the waits that began, `waited_seconds` the time that went by in them. `ended_by`
    is what ended the patience; the absence of a service while it is not over.
    """

    def __init__(self, terms: PatienceTerms | None = None) -> None:
        self._terms = terms if terms is not None and terms.seconds_max > 0 else None
        self._over = ""
        self.ended_by = Cause.SERVICE_AWAY
        self._raised: ServiceError | None = None
        self._open = 0
        self._since = 0.0
        self.waits = 0
        self.waited_seconds = 0.0

    async def until_done(
        self,
        service: str,
        what: str,
        do: Callable[[], Awaitable[Answer]],
        look: Callable[[], Awaitable[Answer | None]] | None = None,
    ) -> Answer:
        """Do it again while the service is away; before each repetition ask `look`.

        What `look` finds is the answer; None means that nothing is there yet. Raises the last
        failure when the patience is over, and every refusal at once. When the patience was over
        before, no wait begins, so each failure is raised at once as well.
        """
        wait: Wait | None = None
        while True:
            try:
                found = await look() if wait is not None and look is not None else None
                answer = await self._done(service, what, do) if found is None else found
            except ServiceError as error:
                if self._terms is None or not is_away(error) or (self._over and wait is None):
                    self._end(wait)
                    raise
                wait = wait or self.begin(self._terms, service, what)
                await self._pause(self._terms, wait, error)
            else:
                self._end(wait)
                return answer

    def between(self, ports: Ports) -> Ports:
        """The same ports of an attempt; calls that may be repeated as they are wait for answers."""
        given = cast("Any", ports)

        def patient(service: str, holder: object, name: str) -> object:
            return _PatientPort(self, service, name, getattr(holder, name))

        names = REPEATED.keys() - {QUEUE}
        of_lakefs = {name: patient(LAKEFS, given.lakefs, name) for name in names}
        lakefs, queue = replace(given.lakefs, **of_lakefs), patient(CONDUCTOR, given, QUEUE)
        return cast("Ports", replace(given, patience=self, lakefs=lakefs, queue=queue))

    async def _done(self, service: str, what: str, do: Callable[[], Awaitable[Answer]]) -> Answer:
        """Do it once; what an adapter repeats by itself meanwhile is a wait as well.

        Only the client of lakeFS repeats requests. That of Conductor leaves it to `until_done`.
        """
        if self._terms is None or service != LAKEFS:
            return await do()
        wait = _RepetitionsAsWait(self, self._terms, what)
        try:
            with heard_by(Repetitions(wait.failed, wait.over)):
                return await do()
        finally:
            wait.close()

    def begin(self, terms: PatienceTerms, service: str, what: str) -> Wait:
        """Two calls side by side wait as one: their time is counted once."""
        now = terms.clock.monotonic()
        if not self._open:
            self.waits += 1
            self._since = now
        self._open += 1
        return Wait(service, what, now)

    def _end(self, wait: Wait | None) -> None:
        if wait is not None and self._terms is not None:
            wait.end(self._terms.progress, self.stop_counting(self._terms))

    def stop_counting(self, terms: PatienceTerms) -> float:
        """One wait less; the moment of its end."""
        now = terms.clock.monotonic()
        self._open -= 1
        if not self._open:
            self.waited_seconds += now - self._since
        return now

    async def _pause(self, terms: PatienceTerms, wait: Wait, error: ServiceError) -> None:
        """Let time pass before the next try, or raise.

        Patience that is over does not begin again: each of the steps that follow would wait anew.
        """
        wait.failures += 1
        if error is self._raised:  # of a call that waited inside this one
            self._end(wait)
            raise error
        left, why = self._left(terms, wait)
        if left > 0 and not self._over:
            lasts = wait.report(terms.progress, terms.clock.monotonic(), str(error))
            # This stops the polls of tasks that need lakeFS; a Conductor that is away answers none.
            if lasts and wait.service == LAKEFS:
                terms.lakefs_is_away(error)
            # The exponent is bounded, because a float overflows after a thousand failures.
            ceiling = min(PAUSE_SECONDS_MAX, FIRST_PAUSE_SECONDS * 2.0 ** min(wait.failures - 1, 9))
            stopped = await terms.rest(min(terms.fraction() * ceiling, left))
            why = "" if stopped is None else stopped.reason
            self.ended_by = self.ended_by if stopped is None else stopped.cause
        self._over = self._over or why
        if self._over:
            self._end(wait)
            seconds = terms.clock.monotonic() - wait.began
            text = f"{error}; waited {seconds:.0f} s for {wait.service}, until {self._over}"
            unknown = isinstance(error, OutcomeUnknownError)
            self._raised = (OutcomeUnknownError if unknown else UnavailableError)(text)
            self._raised.cause = self.ended_by
            raise self._raised from error

    def _left(self, terms: PatienceTerms, wait: Wait) -> tuple[float, str]:
        """Seconds that this wait may still take, and what is over after them."""
        until, why = wait.began + terms.seconds_max, "PERAGO_PATIENCE was over"
        if terms.row_until < until:
            until, why = terms.row_until, "the row could no longer be this attempt's"
        return until - terms.clock.monotonic(), why


@final
class _RepetitionsAsWait:
    """Counts the requests of one call that an adapter repeats by itself as one wait.

    It opens no circuit: other requests of the same call may be answered.
    """

    def __init__(self, patience: Patience, terms: PatienceTerms, what: str) -> None:
        self._patience = patience
        self._terms = terms
        self._what = what
        self._failing: set[object] = set()
        self._wait: Wait | None = None
        self._closed = False

    def failed(self, request: object, error: ServiceError) -> None:
        """Begin to wait with the first of them."""
        if self._closed:
            return
        self._failing.add(request)
        if self._wait is None:
            self._wait = self._patience.begin(self._terms, LAKEFS, self._what)
            self._wait.unreported_seconds_max = UNREPORTED_REPETITIONS_SECONDS_MAX
        self._wait.failures += 1
        self._wait.report(self._terms.progress, self._terms.clock.monotonic(), str(error))

    def over(self, request: object) -> None:
        """The wait is over with the last of them."""
        self._failing.discard(request)
        if not self._failing:
            self._end()

    def close(self) -> None:
        """The call is over: whatever is told now belongs to no wait."""
        self._closed = True
        self._end()

    def _end(self) -> None:
        wait, self._wait = self._wait, None
        if wait is None:
            return
        now = self._patience.stop_counting(self._terms)
        if wait.reported:
            wait.end(self._terms.progress, now)


@final
class _PatientPort:
    """A port between whose calls and its caller stands patience."""

    def __init__(self, patience: Patience, service: str, name: str, port: object) -> None:
        self._patience = patience
        self._service = service
        self._name = name
        self._port = port

    def __getattr__(self, verb: str) -> Any:  # noqa: ANN401 - any port's
        method = getattr(self._port, verb)
        if verb not in REPEATED[self._name]:
            return method

        async def ask(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - any port's
            return await self._patience.until_done(
                self._service, f"{self._name}.{verb}", lambda: method(*arguments, **options)
            )

        return ask


@final
class WorkTime:
    """A time limit that stands still while a service is away."""

    def __init__(self, patience: Patience, clock: Clock, seconds: float) -> None:
        self._patience = patience
        self._clock = clock
        self._until = clock.monotonic() + seconds - patience.waited_seconds

    @property
    def left(self) -> float:
        """Seconds that are left; 0 or less when it is over."""
        return self._until + self._patience.waited_seconds - self._clock.monotonic()
