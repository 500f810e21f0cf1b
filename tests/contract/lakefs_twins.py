"""Random steps over the ports of a lakeFS, told in words that two installations can share.

A step draws its arguments once and runs on any twin. Commits go by their number in order of
creation, because their ids differ. Must not know which twin is right.
"""

import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeAlias, cast

from tests.contract.lakefs_world import MAIN, LakeFSWorld

from perago.domain.commit_metadata import EXPECTED_HEAD
from perago.domain.logical_execution import BranchName, CommitId, RepositoryId, TagName
from perago.domain.outcome import Merged
from perago.domain.paths import FENCE_PATH
from perago.domain.publication import FENCE_FILE
from perago.ports.errors import WorldError
from perago.ports.lakefs import CommitRequest, MergeRequest
from perago.ports.objects import ObjectEntry, ObjectUpload

# None of these can be read as the beginning of a commit id.
BRANCHES = (MAIN, BranchName("work"), BranchName("other"), BranchName("third"))
TAGS = (TagName("v1"), TagName("v2"), TagName("third"))
PATHS = ("a", "d", "d/x", "d/y", "e/z")
CONTENTS = (b"1", b"2", b"")
EXPRESSIONS = ("main@", "main~0", "main~1", "work~1", "main~9", "v1~1", "nowhere")
PREFIXES = ("", "d", "d/", "e/", "zz")
AMOUNTS = (1, 2, 1000)
# What differs between two servers without meaning anything.
UNTOLD = frozenset({"created_at", "modified_at", "metarange", "text"})


@dataclass
class Twin:
    """One installation with its repository; the number of a commit is its name."""

    world: LakeFSWorld
    repository: RepositoryId
    file: Path
    commits: list[CommitId] = field(default_factory=list[CommitId])

    async def begin(self) -> None:
        """The first commit, and one with a file and the fence."""
        head = await self.world.branches.head(self.repository, MAIN)
        files = {"a": b"0", FENCE_PATH: FENCE_FILE}
        self.commits = [head.commit]
        for path, content in files.items():
            await self.world.write(self.repository, MAIN, path, content)
        request = CommitRequest(self.repository, MAIN, "begin", {})
        self.commits.append(await self.world.commits.commit(request))

    async def tell(self, step: "Step") -> object:
        """Run a step and tell its answer, or the kind of its error."""
        try:
            answer = await step(self)
        except WorldError as error:
            return type(error).__name__
        return self._told(answer)

    def _told(self, value: object) -> object:
        match value:
            case ObjectEntry():
                return (ObjectEntry.__name__, self._facts(value._asdict()))
            case str():
                known = value in self.commits
                return f"#{self.commits.index(CommitId(value))}" if known else value
            case tuple() | list():
                return [self._told(item) for item in cast("Sequence[object]", value)]
            case Mapping():
                pairs = cast("Mapping[str, object]", value).items()
                return {name: self._told(item) for name, item in pairs}
            case _ if is_dataclass(value):
                facts = {fact.name: getattr(value, fact.name) for fact in fields(value)}
                return (type(value).__name__, self._facts(facts))
            case _:
                return value

    def _facts(self, facts: Mapping[str, object]) -> dict[str, object]:
        return {name: self._told(value) for name, value in facts.items() if name not in UNTOLD}


Step: TypeAlias = Callable[[Twin], Awaitable[object]]


class Dice:
    """Draws steps; `commits` is how many there are to name."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - a schedule, not a secret
        self.commits = 0
        self._steps = 0

    def step(self) -> tuple[str, Step]:
        """The next step and its name."""
        verbs: dict[Callable[[], Step], int] = {
            self._write: 12,
            self._commit: 12,
            self._merge: 14,
            self._create_branch: 4,
            self._remove: 6,
            self._relocate: 3,
            self._create_tag: 3,
            self._read_names: 6,
            self._read_objects: 6,
            self._walk: 3,
            self._compare: 5,
        }
        self._steps += 1
        draw = self._random.choices(list(verbs), list(verbs.values()))[0]
        return draw.__name__.strip("_"), draw()

    def _commit_of(self) -> Callable[[Twin], CommitId]:
        number = self._random.randrange(self.commits + (self._random.random() < 0.05))
        unknown = CommitId("0" * 64)
        return lambda twin: twin.commits[number] if number < len(twin.commits) else unknown

    def _reference(self) -> Callable[[Twin], str]:
        if self._random.random() < 0.5:
            return self._commit_of()
        name = self._random.choice((*BRANCHES, *TAGS, *EXPRESSIONS))
        return lambda _twin: name

    def _page(self) -> dict[str, Any]:
        after = self._random.choice(("", "", "a", "d", "d/", "d/x"))
        amount = self._random.choice(AMOUNTS)
        return {"prefix": self._random.choice(PREFIXES), "after": after, "amount": amount}

    def _write(self) -> Step:
        branch, path = self._random.choice(BRANCHES), self._random.choice(PATHS)
        content = self._random.choice(CONTENTS)
        copied, reference = self._random.random() < 0.2, self._reference()
        target = self._random.choice(PATHS)

        async def upload(twin: Twin) -> object:
            twin.file.write_bytes(content)
            order = ObjectUpload(path, twin.file)
            return await twin.world.objects.upload(twin.repository, branch, order)

        async def copy(twin: Twin) -> object:
            return await twin.world.objects.copy(
                twin.repository,
                branch,
                source_ref=reference(twin),
                source_path=path,
                target_path=target,
            )

        return copy if copied else upload

    def _commit(self) -> Step:
        branch, allow_empty = self._random.choice(BRANCHES), self._random.random() < 0.3
        exact = self._commit_of() if self._random.random() < 0.2 else None
        message = f"step {self._steps}"

        async def act(twin: Twin) -> object:
            metarange = None
            if exact is not None:
                record = await twin.world.commits.read(twin.repository, exact(twin))
                metarange = record.metarange or None
            request = CommitRequest(
                twin.repository,
                branch,
                message,
                {"step": message},
                allow_empty=allow_empty,
                source_metarange=metarange,
            )
            twin.commits.append(await twin.world.commits.commit(request))
            return twin.commits[-1]

        return act

    def _merge(self) -> Step:
        source, target = self._reference(), self._random.choice(BRANCHES)
        expected = self._commit_of() if self._random.random() < 0.4 else None
        allow_empty, message = self._random.random() < 0.3, f"step {self._steps}"

        async def act(twin: Twin) -> object:
            metadata = {} if expected is None else {EXPECTED_HEAD: expected(twin)}
            answer = await twin.world.branches.merge(
                MergeRequest(twin.repository, source(twin), target, message, metadata, allow_empty)
            )
            if isinstance(answer, Merged):
                twin.commits.append(answer.commit)
            return answer

        return act

    def _create_branch(self) -> Step:
        branch, source = self._random.choice(BRANCHES), self._commit_of()
        return lambda twin: twin.world.branches.create(twin.repository, branch, source(twin))

    def _create_tag(self) -> Step:
        tag, commit = self._random.choice(TAGS), self._commit_of()
        return lambda twin: twin.world.tags.create(twin.repository, tag, commit(twin))

    def _relocate(self) -> Step:
        branch, to = self._random.choice(BRANCHES), self._commit_of()
        return lambda twin: twin.world.branches.relocate(twin.repository, branch, to(twin))

    def _remove(self) -> Step:
        branch, tag = self._random.choice(BRANCHES), self._random.choice(TAGS)
        paths = self._random.sample(PATHS, self._random.randrange(1, 3))
        removals: tuple[Step, ...] = (
            lambda twin: twin.world.branches.delete(twin.repository, branch),
            lambda twin: twin.world.tags.delete(twin.repository, tag),
            lambda twin: twin.world.objects.delete_many(twin.repository, branch, paths),
        )
        return self._random.choices(removals, (2, 1, 4))[0]

    def _read_names(self) -> Step:
        branch, tag = self._random.choice(BRANCHES), self._random.choice(TAGS)
        reference, amount = self._reference(), self._random.choice(AMOUNTS)
        reads: tuple[Step, ...] = (
            lambda twin: twin.world.branches.head(twin.repository, branch),
            lambda twin: twin.world.tags.read(twin.repository, tag),
            lambda twin: twin.world.commits.read(twin.repository, reference(twin)),
            lambda twin: twin.world.branches.list_page(twin.repository, "", "", amount),
            lambda twin: twin.world.tags.list_page(twin.repository, "v", "v1", amount),
        )
        return self._random.choice(reads)

    def _read_objects(self) -> Step:
        reference, path, page = self._reference(), self._random.choice(PATHS), self._page()
        reads: tuple[Step, ...] = (
            lambda twin: twin.world.objects.read(twin.repository, reference(twin), path),
            lambda twin: twin.world.objects.list_page(twin.repository, reference(twin), **page),
        )
        return self._random.choice(reads)

    def _walk(self) -> Step:
        start, goal = self._reference(), self._commit_of()
        bound = self._random.choice((1, 2, 3, 100))
        return lambda twin: twin.world.commits.first_parents(
            twin.repository, start(twin), goal(twin), commits_max=bound
        )

    def _compare(self) -> Step:
        left, right, page = self._commit_of(), self._commit_of(), self._page()
        branch = self._random.choice(BRANCHES)
        reads: tuple[Step, ...] = (
            lambda twin: twin.world.commits.diff_page(
                twin.repository, left(twin), right(twin), **page
            ),
            lambda twin: twin.world.commits.uncommitted_page(twin.repository, branch, **page),
        )
        return self._random.choice(reads)
