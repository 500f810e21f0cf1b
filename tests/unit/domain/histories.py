"""Histories of a target branch, by the names people give them; the newest commit comes first."""

from collections.abc import Mapping
from itertools import pairwise

from hypothesis import strategies as st

from perago.domain.commit_metadata import (
    EXPECTED_HEAD,
    LOGICAL_EXECUTION_KEY,
    LOGICAL_TASK_KEY,
    POLICY,
    TARGET_BRANCH,
)
from perago.domain.lakefs import (
    BranchName,
    CommitId,
    CommitRecord,
    FirstParentWalk,
    RepositoryId,
    StagedReference,
    WorkspaceReference,
)
from perago.domain.publication import Isolation, PublicationFacts

INPUT = CommitId("A")
PLACE = WorkspaceReference(RepositoryId("songs"), BranchName("main"), INPUT)
STAGED = StagedReference(RepositoryId("songs"), BranchName("perago-staging-1"), CommitId("S"))
TASK = "wf/mix/0"
KEY = "chain-place"
OTHER_TASK = "wf/cut/0"
OTHER_KEY = "chain-elsewhere"


def commit(name: str, *parents: str, metadata: Mapping[str, str] | None = None) -> CommitRecord:
    return CommitRecord(
        CommitId(name), tuple(CommitId(parent) for parent in parents), metadata or {}
    )


def published(name: str, parent: str, *, changes: Mapping[str, str | None] | None = None) -> CommitRecord:  # fmt: skip # noqa: E501
    """A publication of this very execution on `parent`; `changes` replace or drop metadata."""
    metadata: dict[str, str | None] = {
        LOGICAL_TASK_KEY: TASK,
        LOGICAL_EXECUTION_KEY: KEY,
        TARGET_BRANCH: PLACE.branch,
        EXPECTED_HEAD: parent,
        POLICY: "settled",
        **(changes or {}),
    }
    return commit(name, parent, metadata={k: v for k, v in metadata.items() if v is not None})


def down_to_input(*records: CommitRecord) -> FirstParentWalk:
    """A walk that found the input below the given commits."""
    return FirstParentWalk((*records, commit(INPUT, "root")), reached=True)


def down_to_root(*records: CommitRecord) -> FirstParentWalk:
    """A walk that did not meet the input."""
    return FirstParentWalk(records, reached=False)


def cut(*records: CommitRecord) -> FirstParentWalk:
    """A walk that was stopped by its bound."""
    return FirstParentWalk(records, reached=False, truncated=True)


def merge_of_ours() -> CommitRecord:
    """A human's merge whose metadata was typed over from ours."""
    ours = published("M", "A")
    return commit("M", "A", "X", metadata=ours.metadata)


FOREIGN = commit("X", "A")
OTHER_EXECUTION: Mapping[str, str | None] = {LOGICAL_EXECUTION_KEY: OTHER_KEY}
NO_EXECUTION: Mapping[str, str | None] = {LOGICAL_EXECUTION_KEY: None, POLICY: "head-parent"}
OTHER_OWNER: Mapping[str, str | None] = {
    LOGICAL_TASK_KEY: OTHER_TASK,
    LOGICAL_EXECUTION_KEY: OTHER_KEY,
}

HEADS: Mapping[str, FirstParentWalk] = {
    "the input": down_to_input(),
    "child, this execution": down_to_input(published("P", "A")),
    "child, our task, other execution": down_to_input(published("P", "A", changes=OTHER_EXECUTION)),
    "child, our task, no execution": down_to_input(published("P", "A", changes=NO_EXECUTION)),
    "child, other task": down_to_input(published("P", "A", changes=OTHER_OWNER)),
    "child, empty owner": down_to_input(published("P", "A", changes={LOGICAL_TASK_KEY: ""})),
    "child, no metadata": down_to_input(FOREIGN),
    "child, other branch's copy": down_to_input(
        published("P", "A", changes={TARGET_BRANCH: "dev"})
    ),
    "child, other head expected": down_to_input(
        published("P", "A", changes={EXPECTED_HEAD: "elsewhere"})
    ),
    "child, no head expected": down_to_input(published("P", "A", changes={EXPECTED_HEAD: None})),
    "merge of the input and another": down_to_input(commit("M", "A", "X")),
    "merge that carries our metadata": down_to_input(merge_of_ours()),
    "merge onto another": down_to_input(commit("M", "X", "A"), FOREIGN),
    "several, all of this execution": down_to_input(published("Q", "P"), published("P", "A")),
    "several, all of our task": down_to_input(
        published("Q", "P", changes=NO_EXECUTION), published("P", "A", changes=NO_EXECUTION)
    ),
    "ours below a foreign one": down_to_input(commit("Y", "P"), published("P", "A")),
    "ours above a foreign one": down_to_input(published("P", "X"), FOREIGN),
    "ours below another task's": down_to_input(
        published("Q", "P", changes=OTHER_OWNER), published("P", "A")
    ),
    "cherry-picked copy of ours": down_to_input(
        published("C", "X", changes={EXPECTED_HEAD: "A"}), FOREIGN
    ),
    "ours, reverted": down_to_input(commit("R", "P"), published("P", "A")),
    "ours, reverted and picked again": down_to_input(
        published("C", "R", changes={EXPECTED_HEAD: "A"}), commit("R", "P"), published("P", "A")
    ),
    "off the chain": down_to_root(commit("X", "root"), commit("root")),
    "off the chain, ours": down_to_root(published("P", "root"), commit("root")),
    "no parents": down_to_root(commit("X")),
    "beyond the bound": cut(published("Q", "P"), published("P", "O")),
}


def facts(
    walk: FirstParentWalk,
    staged: StagedReference | None = STAGED,
    *,
    isolation: Isolation = Isolation.BRANCH,
    untouched: bool = False,
    require_ownership: bool = False,
    execution_key: str | None = KEY,
) -> PublicationFacts:
    return PublicationFacts(
        workspace=PLACE,
        walk=walk,
        staged=staged,
        logical_task_key=TASK,
        execution_key=execution_key,
        isolation=isolation,
        untouched=untouched,
        require_ownership=require_ownership,
    )


def facts_from(seed: bytes) -> PublicationFacts:
    """Facts picked by bytes: one draw of the search is much faster than thirty."""
    harness, who, ending, *kinds = seed
    names = [f"C{n}" for n in range(len(kinds) - harness % 5, len(kinds))]
    records = [
        _commit_of_kind(kind, name, parent)
        for kind, (name, parent) in zip(kinds, pairwise([*names, "A"]), strict=False)
    ]
    if not records or ending % 5 < 3:
        walk = down_to_input(*records)
    else:
        walk = cut(*records) if ending % 2 else down_to_root(*records)
    return facts(
        walk,
        STAGED if who % 2 else None,
        isolation=Isolation.PREFIX if who // 2 % 2 else Isolation.BRANCH,
        untouched=who // 4 % 2 == 1,
        require_ownership=who // 8 % 2 == 1,
        execution_key=None if who // 16 % 8 == 0 else KEY,
    )


def _commit_of_kind(kind: int, name: str, parent: str) -> CommitRecord:
    """One of 240 commits; the likely values stand more than once in each row."""
    kind, task = divmod(kind, 4)
    kind, key = divmod(kind, 4)
    expected, branch = divmod(kind, 3)
    metadata = {
        LOGICAL_TASK_KEY: (TASK, TASK, OTHER_TASK, None)[task],
        LOGICAL_EXECUTION_KEY: (KEY, KEY, OTHER_KEY, None)[key],
        TARGET_BRANCH: ("main", "main", "dev")[branch],
        POLICY: ("settled", "lineage")[kind % 2],
        EXPECTED_HEAD: (parent, parent, parent, parent, "A", None)[expected],
    }
    said = {key: value for key, value in metadata.items() if value is not None}
    return commit(name, parent, *(("side",) if expected == 0 else ()), metadata=said)


FACTS = st.binary(min_size=7, max_size=7).map(facts_from)
