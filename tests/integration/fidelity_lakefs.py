"""The lakeFS machine: one history on the in-memory lakeFS and on a real one, answer by answer.

Commits go by their number in order of creation. Six habits keep known differences out.
An object's bytes belong to its path, because the server's three-way merge loses an object whose
bytes are those of its neighbour (test_lakefs_three_way_merge.py). Protection is set before anything
else, because the server enforces a later rule only after some seconds. Broken action files stay
out, because the server remembers for some seconds which files there were. Only commits without
metadata are picked, because the server forgets the id of another (test_lakefs_cherry_pick.py). What
has no message of its own is not repeated on one head, because twice in a second it is one commit,
and is left out where it changes nothing that can be seen (fidelity_lakefs_trees.py).
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias, final

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from tests.integration.fidelity import Operation, Operations, Run, Teller, outcome_of
from tests.integration.fidelity_lakefs_trees import shows_nothing

from perago.domain.commit_metadata import EXPECTED_HEAD
from perago.domain.fence import FENCE_FILE
from perago.domain.lakefs import BranchName, CommitId, CommitRecord, RepositoryId, TagName
from perago.domain.outcome import Merged
from perago.domain.paths import FENCE_PATH
from perago.ports.installations import LakeFSInstallation
from perago.ports.lakefs import CommitRequest, MergeRequest
from perago.ports.objects import ObjectUpload
from perago.testing.contract.lakefs_under_test import MAIN, REFUSING_FILE

GUARDED = BranchName("guarded")
GUARD = "guard*"
# None of these can be read as the beginning of a commit id.
BRANCHES = (MAIN, BranchName("work"), BranchName("other"), GUARDED)
TAGS = (TagName("v1"), TagName("v2"), TagName("work"))
REFUSING_PATH = "_lakefs_actions/refusing.yaml"
VERSIONS: Mapping[str, tuple[bytes, ...]] = {
    "a": (b"a 1", b"a 2"),
    "d": (b"d 1", b"d 2"),
    "d/x": (b"x 1", b"x 2"),
    "d/y": (b"y 1", b""),
    "e/\u00e4 z": (b"z 1", b"z 2"),
    FENCE_PATH: (FENCE_FILE,),
    REFUSING_PATH: (REFUSING_FILE,),
}
PATHS = tuple(VERSIONS)
STEPS_AWAY = ("", "", "", "@", "~0", "~1", "~2", "^1", "^2", "~9", "$")
UNKNOWN = CommitId("0" * 64)
WALK_MAX = 200


class Operator(Protocol):
    """What people and other tools do to a repository: no worker asks for it, and no port has it."""

    async def merge_by_hand(self, source: str, target: BranchName, strategy: str) -> CommitId:
        """Merge without squash."""
        ...

    async def revert(self, ref: str, branch: BranchName, parent: int) -> None:
        """Take back what a commit did; parent 0 names none."""
        ...

    async def cherry_pick(self, ref: str, branch: BranchName, parent: int) -> CommitId:
        """Do again what a commit did; parent 0 names none."""
        ...


@dataclass
class Side(Teller):
    """One server with its repository."""

    ports: LakeFSInstallation
    repository: RepositoryId
    operator: Operator
    file: Path
    commits: list[CommitId] = field(default_factory=list[CommitId])
    repeated: set[tuple[str, str, str, int]] = field(default_factory=set[tuple[str, str, str, int]])
    steps: int = 0
    untold = frozenset({"created_at", "modified_at", "text", "storage_namespace"})

    def name_of(self, fact: str, text: str) -> object:
        """Commits by their number."""
        if text in self.commits:
            return f"#{self.commits.index(CommitId(text))}"
        if fact == "metarange" and text:
            return "a tree"  # what is in it is looked at; equal trees may have two metaranges
        for number, commit in enumerate(self.commits if len(text) > len(UNKNOWN) else ()):
            text = text.replace(commit, f"#{number}")
        return text.replace(self.repository, "the repository")

    def keep(self, commit: CommitId) -> CommitId:
        """Number a new commit."""
        if commit not in self.commits:
            self.commits.append(commit)
        return commit

    @property
    def message(self) -> str:
        """A message that no other commit has: two that differ in nothing would be one commit."""
        return f"step {self.steps}"


Sides: TypeAlias = Callable[[], Awaitable[tuple[Side, Side]]]
Page: TypeAlias = dict[str, Any]
Manner: TypeAlias = dict[str, bool]


@dataclass(frozen=True, slots=True)
class Nth:
    """The commit of that number; counted around, and past the last one is one that is unknown."""

    number: int

    def on(self, side: Side) -> CommitId:
        """The commit there."""
        number = self.number % (len(side.commits) + 1)
        return side.commits[number] if number < len(side.commits) else UNKNOWN


@dataclass(frozen=True, slots=True)
class Reference:
    """A name or a commit, with steps from there."""

    base: Nth | str
    away: str

    def on(self, side: Side) -> str:
        """The reference there."""
        return (self.base if isinstance(self.base, str) else self.base.on(side)) + self.away


nth = st.builds(Nth, st.integers(0, 40))
branches = st.sampled_from(BRANCHES)
tags = st.sampled_from(TAGS)
paths = st.sampled_from(PATHS)
references = st.builds(
    Reference,
    st.one_of(nth, st.sampled_from((*BRANCHES, *TAGS, "nowhere"))),
    st.sampled_from(STEPS_AWAY),
)
# What a write names: views of a branch and second parents are for readers.
sources = st.builds(
    Reference,
    st.one_of(nth, st.sampled_from((*BRANCHES, *TAGS, "nowhere"))),
    st.sampled_from(("", "", "~1", "~9")),
)
pages = st.fixed_dictionaries(
    {
        "prefix": st.sampled_from(("", "d", "d/", "e/", "zz")),
        "after": st.sampled_from(("", "", "a", "d", "d/", "d/x")),
        "amount": st.sampled_from((1, 2, 1000)),
    }
)
manners = st.fixed_dictionaries({"allow_empty": st.booleans(), "squash": st.booleans()})


# The first is the one that hypothesis finds simplest, and so the one it draws most.
operations = Operations[Side]()


@operations.add(weight=4, branch=branches, path=paths, version=st.integers(0, 1))
async def write_and_commit(side: Side, branch: BranchName, path: str, version: int) -> object:
    await _upload(side, branch, path, version, {})
    request = CommitRequest(side.repository, branch, side.message, {})
    return side.keep(await side.ports.commits.commit(request))


@operations.add(
    weight=2, branch=branches, path=paths, version=st.integers(0, 1), noted=st.booleans()
)
async def write(side: Side, branch: BranchName, path: str, version: int, *, noted: bool) -> object:
    metadata = {"note": "of the writer"} if noted else {}
    return await _upload(side, branch, path, version, metadata)


@operations.add(branch=branches, path=paths, source=references)
async def copy(side: Side, branch: BranchName, path: str, source: Reference) -> object:
    return await side.ports.objects.copy(
        side.repository,
        branch,
        source_ref=source.on(side),
        source_path=path,
        target_path=path,
    )


@operations.add(branch=branches, gone=st.lists(paths, min_size=1, max_size=3, unique=True))
async def delete_objects(side: Side, branch: BranchName, gone: list[str]) -> None:
    await side.ports.objects.delete_many(side.repository, branch, gone)


@operations.add(weight=2, branch=branches, allow_empty=st.booleans())
async def commit(side: Side, branch: BranchName, *, allow_empty: bool) -> object:
    metadata = {"step": side.message}
    request = CommitRequest(side.repository, branch, side.message, metadata, allow_empty)
    return side.keep(await side.ports.commits.commit(request))


@operations.add(branch=branches, tree_of=nth, allow_empty=st.booleans())
async def commit_tree(side: Side, branch: BranchName, tree_of: Nth, *, allow_empty: bool) -> object:
    record = await side.ports.commits.read(side.repository, tree_of.on(side))
    request = CommitRequest(
        side.repository, branch, side.message, {}, allow_empty, record.metarange or None
    )
    return side.keep(await side.ports.commits.commit(request))


@operations.add(weight=3, source=sources, onto=branches, how=manners)
async def merge(side: Side, source: Reference, onto: BranchName, how: Manner) -> object:
    return await _merge(side, source.on(side), onto, {}, how)


@operations.add(weight=3, source=nth, onto=branches, expected=st.none() | nth, how=manners)
async def merge_fenced(
    side: Side, source: Nth, onto: BranchName, expected: Nth | None, how: Manner
) -> object:
    head = (await side.ports.branches.head(side.repository, onto)).commit
    metadata = {EXPECTED_HEAD: expected.on(side) if expected else head}
    return await _merge(side, source.on(side), onto, metadata, how)


@operations.add(
    source=sources, onto=branches, strategy=st.sampled_from(("", "source-wins", "dest-wins"))
)
async def merge_by_hand(side: Side, source: Reference, onto: BranchName, strategy: str) -> object:
    return side.keep(await side.operator.merge_by_hand(source.on(side), onto, strategy))


@operations.add(ref=sources, branch=branches, parent=st.integers(0, 2))
async def revert(side: Side, ref: Reference, branch: BranchName, parent: int) -> object:
    # By id: the server writes the reference into the message as it was given.
    undone = await side.ports.commits.read(side.repository, ref.on(side))
    if not await _is_new(side, "revert", undone, branch, parent):
        return "not again"
    await side.operator.revert(undone.commit, branch, parent)
    head = await side.ports.branches.head(side.repository, branch)
    side.keep(head.commit)
    return head


@operations.add(ref=sources, branch=branches, parent=st.integers(0, 2))
async def cherry_pick(side: Side, ref: Reference, branch: BranchName, parent: int) -> object:
    picked = await side.ports.commits.read(side.repository, ref.on(side))
    if picked.metadata or not await _is_new(side, "pick", picked, branch, parent):
        return "not picked"
    side.keep(await side.operator.cherry_pick(ref.on(side), branch, parent))
    return await side.ports.branches.head(side.repository, branch)


@operations.add(weight=2, branch=branches, source=nth, hidden=st.booleans())
async def create_branch(side: Side, branch: BranchName, source: Nth, *, hidden: bool) -> None:
    await side.ports.branches.create(side.repository, branch, source.on(side), hidden=hidden)


@operations.add(branch=branches)
async def delete_branch(side: Side, branch: BranchName) -> None:
    await side.ports.branches.delete(side.repository, branch)


@operations.add(branch=branches, to=nth)
async def relocate(side: Side, branch: BranchName, to: Nth) -> object:
    return await side.ports.branches.relocate(side.repository, branch, to.on(side))


@operations.add(tag=tags, commit=nth)
async def create_tag(side: Side, tag: TagName, commit: Nth) -> None:
    await side.ports.tags.create(side.repository, tag, commit.on(side))


@operations.add(tag=tags)
async def delete_tag(side: Side, tag: TagName) -> None:
    await side.ports.tags.delete(side.repository, tag)


@operations.add(tag=tags)
async def read_tag(side: Side, tag: TagName) -> object:
    return await side.ports.tags.read(side.repository, tag)


@operations.add(branch=branches)
async def read_head(side: Side, branch: BranchName) -> object:
    return await side.ports.branches.head(side.repository, branch)


@operations.add(ref=references)
async def read_commit(side: Side, ref: Reference) -> object:
    return await side.ports.commits.read(side.repository, ref.on(side))


@operations.add(
    prefix=st.sampled_from(("", "w", "v", "zz")),
    after=st.sampled_from(("", "v1", "main", "other")),
    amount=st.sampled_from((1, 2, 1000)),
    show_hidden=st.booleans(),
)
async def list_names(
    side: Side, prefix: str, after: str, amount: int, *, show_hidden: bool
) -> object:
    ports, page = side.ports, (prefix, after, amount)
    return (
        await ports.branches.list_page(side.repository, *page, show_hidden=show_hidden),
        await ports.tags.list_page(side.repository, *page),
    )


@operations.add(ref=references, page=pages)
async def list_objects(side: Side, ref: Reference, page: Page) -> object:
    return await side.ports.objects.list_page(side.repository, ref.on(side), **page)


@operations.add(ref=references, path=paths)
async def read_object(side: Side, ref: Reference, path: str) -> object:
    return await side.ports.objects.read(side.repository, ref.on(side), path)


@operations.add(start=references, goal=nth, bound=st.sampled_from((1, 2, 3, 100)))
async def walk(side: Side, start: Reference, goal: Nth, bound: int) -> object:
    return await side.ports.commits.first_parents(
        side.repository, start.on(side), goal.on(side), commits_max=bound
    )


@operations.add(left=nth, right=nth, page=pages)
async def compare(side: Side, left: Nth, right: Nth, page: Page) -> object:
    return await side.ports.commits.diff_page(
        side.repository, left.on(side), right.on(side), **page
    )


@operations.add(branch=branches, page=pages)
async def uncommitted(side: Side, branch: BranchName, page: Page) -> object:
    return await side.ports.commits.uncommitted_page(side.repository, branch, **page)


@operations.add(known=st.booleans())
async def repository(side: Side, *, known: bool) -> object:
    name = side.repository if known else RepositoryId("nowhere-at-all")
    return await side.ports.repositories.read(name)


@operations.add()
async def look(side: Side) -> object:
    """All that anybody can see: names, trees, what is uncommitted, histories."""
    ports, root = side.ports, side.commits[0]
    page = await ports.branches.list_page(side.repository, "", show_hidden=True)
    seen: list[object] = [page, await ports.tags.list_page(side.repository, "")]
    for name, _ in page.items:
        at = side.repository, name
        seen += (
            await ports.branches.is_protected(*at),
            await ports.objects.list_page(*at, prefix=""),
            await ports.commits.uncommitted_page(*at),
            await ports.commits.first_parents(*at, root, commits_max=WALK_MAX),
        )
    return seen


async def begin(side: Side) -> object:
    """The first commit, one with a file and the fence, and a branch of each name."""
    head = await side.ports.branches.head(side.repository, MAIN)
    side.keep(head.commit)
    for path in ("a", FENCE_PATH):
        await _upload(side, MAIN, path, 0, {})
    request = CommitRequest(side.repository, MAIN, "begin", {})
    side.keep(await side.ports.commits.commit(request))
    for branch in BRANCHES[1:]:
        await side.ports.branches.create(side.repository, branch, side.commits[-1])
    return head


async def _is_new(
    side: Side, verb: str, commit: CommitRecord, branch: BranchName, parent: int
) -> bool:
    """Whether this head has not seen it: twice in one second would be one and the same commit."""
    head = await side.ports.branches.head(side.repository, branch)
    done = (verb, commit.commit, head.commit, parent)
    is_first = done not in side.repeated
    side.repeated.add(done)
    if not commit.parents[max(parent, 1) - 1 :] or not is_first:
        return is_first
    before = commit.parents[max(parent, 1) - 1]
    base, source = (commit.commit, before) if verb == "revert" else (before, commit.commit)
    return not await shows_nothing(
        side.ports, side.repository, base=base, source=source, head=head.commit
    )


async def _upload(
    side: Side, branch: BranchName, path: str, version: int, metadata: Mapping[str, str]
) -> object:
    contents = VERSIONS[path]
    side.file.write_bytes(contents[version % len(contents)])
    order = ObjectUpload(path, side.file, metadata=metadata)
    return await side.ports.objects.upload(side.repository, branch, order)


async def _merge(
    side: Side, source: str, onto: BranchName, metadata: Mapping[str, str], how: Manner
) -> object:
    answer = await side.ports.branches.merge(
        MergeRequest(side.repository, source, onto, side.message, metadata, **how)
    )
    if isinstance(answer, Merged):
        side.keep(answer.commit)
    return answer


@final
class LakeFSMachine(RuleBasedStateMachine):
    """Draws one operation after the other and compares the answers."""

    def __init__(self, run: Run, sides: Sides) -> None:
        super().__init__()
        self._run = run
        self._fake, self._real = run.do(sides())
        self._both("begin", begin)

    @rule(operation=operations.any())
    def do(self, operation: Operation[Side]) -> None:
        """One operation on both."""
        self._both(operation.name, lambda side: operation.step(side, **operation.drawn))

    def teardown(self) -> None:
        """Whatever an example did, everything that can be seen is the same in the end."""
        if not self._run.found:
            self._both("look", look)

    def _both(self, name: str, step: Callable[[Side], Awaitable[object]]) -> None:
        async def ask() -> tuple[object, object]:
            return (
                await outcome_of(step(self._fake), self._fake.told),
                await outcome_of(step(self._real), self._real.told),
            )

        self._run.check_time()
        self._fake.steps = self._real.steps = self._fake.steps + 1
        self._run.compare(name, *self._run.do(ask()))
