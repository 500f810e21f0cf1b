"""What a history says of each branch and tag: the operations of one register.

A merge or commit finds the first parent of the commit that it makes. One without an answer made the
commit whose metadata are those of the request, if any commit that is known has them; if none has,
it left nothing behind. Or it made the one below such a commit, which its repetition has found there
and no request has read. A merge that the fence refused says which head it found.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.histories.exchange import END, Exchange, Json, as_list, as_map, as_text
from tests.histories.register import ABSENT, ANYTHING, SOMETHING, UNKNOWN, Operation, linearize

EXPECTED_HEAD = "perago.expected_head"
HEAD_MOVED = re.compile(r"perago\.head_moved ([0-9a-f]{64}) ([0-9a-f]{64})")
COMMIT = re.compile(r"[0-9a-f]{64}")
LAKEFS = "lakefs"
BRANCH_LOG = "log of a branch"
PLACE = re.compile(r"/api/v1/repositories/(?P<repository>[^/]+)/(?P<rest>.+)")


@dataclass(frozen=True, slots=True)
class Register:
    """A branch or a tag of a repository."""

    repository: str
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name} of {self.repository}"


@dataclass(slots=True)
class Registers:
    """Every branch and tag of a history."""

    operations: dict[Register, list[Operation]] = field(
        default_factory=lambda: defaultdict[Register, list[Operation]](list)
    )
    parents: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    logs: dict[Register, list[str]] = field(default_factory=dict[Register, list[str]])
    """First parents at the end, the head first."""
    _made: dict[str, list[str]] = field(default_factory=lambda: defaultdict[str, list[str]](list))

    def learn(self, exchange: Exchange) -> None:
        """Which commits there are, from every answer that shows one."""
        if exchange.server == END:
            self._learn_log(exchange)
        elif exchange.server == LAKEFS and exchange.succeeded:
            answer = as_map(exchange.answer)
            for each in (exchange.answer, *as_list(answer.get("results"))):
                self._learn_commit(as_map(each))

    def add(self, number: int, exchange: Exchange) -> None:
        """The operations of one line, if it is about a branch or a tag."""
        place = PLACE.fullmatch(exchange.path)
        if exchange.server != LAKEFS or place is None:
            return
        match place["rest"].split("/"):
            case "refs", _, "merge", branch:
                name, found = branch, _of_commit(self, number, exchange)
            case "branches", branch, "commits" if exchange.method == "POST":
                name, found = branch, _of_commit(self, number, exchange)
            case "branches", branch, "hard_reset":
                name, found = branch, _of_reset(number, exchange)
            case "refs", reference, "commits" if reference.endswith("@"):
                name = reference.removesuffix("@")
                found = _of_read(number, exchange, _first(exchange.answer))
            case "branches" | "tags", *names if len(names) <= 1:
                name, found = _of_reference(number, exchange, *names)
            case _:
                return
        kind = "tag" if place["rest"].startswith("tags") else "branch"
        self.operations[Register(place["repository"], kind, name)] += found

    def made_with(self, metadata: Json) -> Sequence[str]:
        """Commits that are known and have these metadata."""
        return self._made.get(_text_of(metadata), ())

    def _learn_commit(self, record: Mapping[str, Json]) -> None:
        commit = as_text(record.get("id"))
        if not COMMIT.fullmatch(commit) or "parents" not in record or commit in self.parents:
            return
        self.parents[commit] = tuple(as_text(each) for each in as_list(record.get("parents")))
        self._made[_text_of(record.get("metadata"))].append(commit)

    def _learn_log(self, exchange: Exchange) -> None:
        if exchange.path != BRANCH_LOG:
            return
        facts = as_map(exchange.answer)
        records = [as_map(each) for each in as_list(facts.get("commits"))]
        for each in records:
            self._learn_commit(each)
        names = as_text(facts.get("repository")), "branch", as_text(facts.get("branch"))
        register = Register(*names)
        self.logs[register] = [as_text(each.get("id")) for each in records]
        head = self.logs[register][0]
        read = Operation("the head at the end", exchange.asked, exchange.answered, head)
        self.operations[register].append(read)


def registers_of(history: Sequence[Exchange]) -> Registers:
    """All branches and tags: first which commits there are, then what was done."""
    registers = Registers()
    for exchange in history:
        registers.learn(exchange)
    for number, exchange in enumerate(history, start=1):
        registers.add(number, exchange)
    return registers


def judge_registers(registers: Registers) -> list[str]:
    """Every branch or tag whose history cannot have been one of a register, in words."""
    found: list[str] = []
    for register, operations in registers.operations.items():
        stuck = linearize(operations, UNKNOWN)
        if stuck is not None:
            found.append(f"{register} is not linearizable: {stuck}")
    for register, log in registers.logs.items():
        found += _unexplained(register, registers, log)
    return found


def _unexplained(register: Register, registers: Registers, log: Sequence[str]) -> list[str]:
    """What the log at the end has and nobody wrote, and what was written and is not there."""
    operations = registers.operations[register]
    written = {each.left for each in operations if each.left is not None}
    kept = {each.left for each in operations if each.left is not None and each.answered is not None}
    found = [f"{register}: nobody made {each[:12]}" for each in log if each not in written]
    overwritten = any(each.found == SOMETHING and each.left is not None for each in operations)
    lost = sorted(kept - set(log) - {ABSENT}) if not overwritten else []
    return found + [f"{register}: {each[:12]} was acknowledged and is lost" for each in lost]


def _of_commit(registers: Registers, number: int, exchange: Exchange) -> list[Operation]:
    """A merge or a commit."""
    name = f"{'merge' if '/merge/' in exchange.path else 'commit'} of line {number}"
    given, answer = as_map(exchange.request), as_map(exchange.answer)
    expected = as_text(as_map(given.get("metadata")).get(EXPECTED_HEAD))
    if exchange.succeeded:
        made = as_text(answer.get("reference")) or as_text(answer.get("id"))
        found = (registers.parents.get(made) or (expected or ANYTHING,))[0]
        return [Operation(name, exchange.asked, exchange.answered, found, made)]
    if exchange.settled:
        moved = HEAD_MOVED.search(as_text(answer.get("message")))
        refused = moved is not None and exchange.status == 412
        saw = [] if moved is None or not refused else [moved[2]]
        return [
            Operation(f"refused {name}", exchange.asked, exchange.answered, each) for each in saw
        ]
    likely = [
        made for made in registers.made_with(given.get("metadata")) if registers.parents[made]
    ]
    below = {made: registers.parents[made][0] for made in likely}
    unread = sorted(set(below.values()) - registers.parents.keys())
    left = [*below.items(), *((made, SOMETHING) for made in unread)]
    return [Operation(f"open {name}", exchange.asked, None, found, made) for made, found in left]


def _of_reset(number: int, exchange: Exchange) -> list[Operation]:
    """To a commit, whatever was there."""
    if exchange.settled and not exchange.succeeded:
        return []
    answered, left = exchange.answered if exchange.settled else None, exchange.query.get("ref", "")
    return [Operation(f"reset of line {number}", exchange.asked, answered, SOMETHING, left)]


def _of_reference(number: int, exchange: Exchange, name: str = "") -> tuple[str, list[Operation]]:
    """Make, remove or read a branch or a tag; nothing of a listing, which is not one moment."""
    match exchange.method:
        case "POST":
            given = as_map(exchange.request)
            name = as_text(given.get("name")) or as_text(given.get("id"))
            return name, _of_creation(number, exchange, given)
        case "DELETE":
            return name, _of_deletion(number, exchange)
        case "GET" if name:
            return name, _of_read(number, exchange, as_map(exchange.answer).get("commit_id"))
        case _:
            return name, []


def _of_creation(number: int, exchange: Exchange, given: Mapping[str, Json]) -> list[Operation]:
    """Put if absent; a conflict says that something is there."""
    name = f"creation of line {number}"
    source = as_text(given.get("source")) or as_text(given.get("ref"))
    answered = as_text(as_map(exchange.answer).get("commit_id")) or as_text(exchange.answer)
    left = answered if COMMIT.fullmatch(answered) else source
    if exchange.succeeded:
        return [Operation(name, exchange.asked, exchange.answered, ABSENT, left)]
    if not exchange.settled:
        return [Operation(f"open {name}", exchange.asked, None, ABSENT, left)]
    if exchange.status == 409:
        return [Operation(f"refused {name}", exchange.asked, exchange.answered, SOMETHING)]
    return []


def _of_deletion(number: int, exchange: Exchange) -> list[Operation]:
    """Of something that is there."""
    name = f"deletion of line {number}"
    if exchange.succeeded:
        return [Operation(name, exchange.asked, exchange.answered, SOMETHING, ABSENT)]
    if not exchange.settled:
        return [Operation(f"open {name}", exchange.asked, None, SOMETHING, ABSENT)]
    if exchange.status == 404:
        return [Operation(f"refused {name}", exchange.asked, exchange.answered, ABSENT)]
    return []


def _of_read(number: int, exchange: Exchange, commit: Json) -> list[Operation]:
    """What is there, or that nothing is; a read without an answer tells nothing."""
    name = f"read of line {number}"
    if exchange.succeeded and as_text(commit):
        return [Operation(name, exchange.asked, exchange.answered, as_text(commit))]
    if exchange.settled and exchange.status == 404:
        return [Operation(name, exchange.asked, exchange.answered, ABSENT)]
    return []


def _first(answer: Json) -> Json:
    results = as_list(as_map(answer).get("results"))
    return as_map(results[0]).get("id") if results else None


def _text_of(metadata: Json) -> str:
    """What the client gave: lakeFS adds how it merged, under a name that starts with a dot."""
    given = as_map(metadata).items()
    return repr(sorted((name, as_text(value)) for name, value in given if name[0] != "."))
