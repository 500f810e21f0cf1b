"""Keys of runs, and the names that are made of them.

The table of `perago.finish` over every target and every run branch.
"""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perago.domain import head_parent, lineage, settled
from perago.domain.attempt import AttemptSnapshot, AttemptStatus, ExecutionId
from perago.domain.commit_metadata import (
    EXPECTED_HEAD,
    RUN,
    RUN_TASKS,
    STAGING_COMMIT,
    TARGET_BRANCH,
    WORKFLOW_ID,
    PublicationIdentity,
)
from perago.domain.lakefs import (
    BranchName,
    CommitId,
    CommitRecord,
    FirstParentWalk,
    RepositoryId,
    WorkspaceReference,
)
from perago.domain.names import is_private_branch, workflow_segment
from perago.domain.publication import Adopt, Isolation, Keep, PublicationFacts, Refusal
from perago.domain.run import (
    FinishDecision,
    FinishFacts,
    MergeRun,
    OnMoved,
    RebaseRun,
    Run,
    RunKey,
    base_tag,
    decide_finish,
    find_publication_of_run,
    key_of_run,
    run_branch,
    run_key,
    run_metadata,
    workflow_of_run,
)

LAKEFS_NAME_CHARACTERS_MAX = 255


def key(
    workflow: str = "w", chain: str = "c", repository: str = "repo", branch: str = "main"
) -> RunKey:
    """The key of a run."""
    row = AttemptSnapshot(workflow, "t", "begin", "perago.begin", AttemptStatus.IN_PROGRESS)
    return run_key(row, chain, RepositoryId(repository), BranchName(branch))


@given(st.text(min_size=1))
def test_a_key_is_read_back_from_both_names_and_tells_its_workflow(workflow: str) -> None:
    made = key(workflow)
    assert key_of_run(run_branch(made)) == made
    assert key_of_run(base_tag(made)) == made
    assert workflow_of_run(made) == workflow_segment(workflow)
    assert len(run_branch(made)) <= LAKEFS_NAME_CHARACTERS_MAX


@pytest.mark.parametrize(
    "name", ["main", "perago-run-", "perago-run-w", "perago-base-w-12", "perago-staging-w-1-2"]
)
def test_another_name_has_no_key(name: str) -> None:
    assert key_of_run(name) is None


def test_the_branch_and_the_tag_of_a_run_have_different_names() -> None:
    """LakeFS refuses a tag that is named like a branch."""
    assert str(run_branch(key())) != str(base_tag(key()))


def test_a_run_branch_is_private() -> None:
    assert is_private_branch(run_branch(key()))


@given(st.text(), st.text(), st.text())
def test_a_key_tells_its_target_from_every_other(chain: str, repository: str, branch: str) -> None:
    made = key(chain=chain)
    run = Run(RepositoryId(repository), BranchName(branch), CommitId("base"), made)
    assert run.is_of_its_target is ((repository, branch) == ("repo", "main"))
    assert replace(run, repository=RepositoryId("repo"), branch=BranchName("main")).is_of_its_target


def test_another_chain_workflow_or_target_is_another_run() -> None:
    keys = {key(), key("v"), key(chain="d"), key(repository="other"), key(branch="dev")}
    assert len(keys) == 5


BASE, HEAD, OTHER = CommitId("b" * 64), CommitId("r" * 64), CommitId("x" * 64)
RUN_1 = Run(RepositoryId("repo"), BranchName("main"), BASE, RunKey("w-" + "0" * 32))
PUBLISHED = CommitId("p" * 64)


def identity() -> PublicationIdentity:
    """Who finishes."""
    row = AttemptSnapshot("w", "t", "finish", "perago.finish", AttemptStatus.IN_PROGRESS)
    workspace = WorkspaceReference(RUN_1.repository, RUN_1.branch, BASE)
    return PublicationIdentity(
        row, ExecutionId("e"), workspace, "/", RUN_1.run_branch, "settled", "settled", "key"
    )


def publication(*parents: CommitId, head: CommitId = HEAD, run: Run = RUN_1) -> CommitRecord:
    """The commit that publishes a run on its first parent."""
    metadata = run_metadata(identity(), run, run_head=head, expected_head=parents[0], tasks=2)
    return CommitRecord(PUBLISHED, parents, metadata)


def plain(name: str, parent: CommitId) -> CommitRecord:
    """A commit of somebody else."""
    return CommitRecord(CommitId(name), (parent,), message="theirs")


def walk(*above: CommitRecord, reached: bool = True, truncated: bool = False) -> FirstParentWalk:
    """The target from its head down, newest first."""
    end = (CommitRecord(BASE, (CommitId("root"),)),) if reached else ()
    return FirstParentWalk((*above, *end), reached=reached, truncated=truncated)


MERGED = publication(BASE, HEAD)
SQUASHED = publication(BASE)
MOVED = plain("h", BASE)
# A target by its history; then what the table says where the run branch is at the run head, without
# a rebase, and with one: nothing touched twice, and something.
TARGETS: dict[str, tuple[FirstParentWalk, str, str, str]] = {
    "at the base": (walk(), "merge", "merge", "merge"),
    "has the run, merged": (walk(MERGED), "adopt", "adopt", "adopt"),
    "has the run, squashed": (walk(SQUASHED), "adopt", "adopt", "adopt"),
    "has the run below others": (
        walk(plain("z", PUBLISHED), MERGED),
        "adopt",
        "adopt",
        "adopt",
    ),
    "has the run, rebased": (
        walk(publication(MOVED.commit, OTHER), MOVED),
        "adopt",
        "adopt",
        "adopt",
    ),
    "moved": (walk(MOVED), "PRG-N004", "rebase h", "PRG-N005"),
    "has another run": (
        walk(publication(BASE, HEAD, run=replace(RUN_1, key=RunKey("w-" + "1" * 32)))),
        "PRG-N004",
        f"rebase {PUBLISHED}",
        "PRG-N005",
    ),
    "has another head of the run": (
        walk(publication(BASE, OTHER, head=OTHER)),
        "PRG-N004",
        f"rebase {PUBLISHED}",
        "PRG-N005",
    ),
    "has a cherry-picked copy": (
        walk(replace(MERGED, parents=(MOVED.commit,)), MOVED),
        "PRG-N004",
        f"rebase {PUBLISHED}",
        "PRG-N005",
    ),
    "has a copy from another branch": (
        walk(replace(MERGED, metadata={**MERGED.metadata, TARGET_BRANCH: "dev"})),
        "PRG-N004",
        f"rebase {PUBLISHED}",
        "PRG-N005",
    ),
    "was reset below the base": (walk(MOVED, reached=False), "PRG-F005", "PRG-F005", "PRG-F005"),
    "was reset and shows the run": (
        walk(MERGED, reached=False),
        "PRG-F005",
        "PRG-F005",
        "PRG-F005",
    ),
    "is too far away": (
        walk(MOVED, reached=False, truncated=True),
        "PRG-F004",
        "PRG-F004",
        "PRG-F004",
    ),
}


def named(decision: FinishDecision) -> str:
    """A decision in a word."""
    match decision:
        case Keep(ref):
            assert ref == BASE
            return "nothing"
        case Adopt(record):
            assert record.commit == PUBLISHED
            return "adopt"
        case MergeRun():
            return "merge"
        case RebaseRun(head):
            return f"rebase {head}"
        case Refusal(code):
            return code


def facts(target: str) -> FinishFacts:
    """What is seen while the run branch is at the run head."""
    return FinishFacts(RUN_1, HEAD, HEAD, decided=False, walk=TARGETS[target][0])


@pytest.mark.parametrize("decided", [False, True], ids=["undecided", "decided"])
@pytest.mark.parametrize("target", TARGETS)
def test_the_run_branch_at_the_run_head(target: str, *, decided: bool) -> None:
    _, refuse, apart, touched = TARGETS[target]
    seen = replace(facts(target), decided=decided)
    assert named(decide_finish(seen)) == refuse
    seen = replace(seen, on_moved=OnMoved.REBASE)
    assert named(decide_finish(seen)) == apart
    assert named(decide_finish(replace(seen, touched="a was changed twice"))) == touched


@pytest.mark.parametrize("on_moved", OnMoved)
@pytest.mark.parametrize("target", TARGETS)
def test_a_run_branch_elsewhere_is_refused_before_the_decision_only(
    target: str, on_moved: OnMoved
) -> None:
    seen = replace(facts(target), branch_head=OTHER, on_moved=on_moved)
    adopted = TARGETS[target][1] == "adopt"
    assert named(decide_finish(seen)) == ("adopt" if adopted else "PRG-N001")
    at_its_head = replace(facts(target), decided=True, on_moved=on_moved)
    assert decide_finish(replace(seen, decided=True)) == decide_finish(at_its_head)


@pytest.mark.parametrize("decided", [False, True], ids=["undecided", "decided"])
@pytest.mark.parametrize("on_moved", OnMoved)
@pytest.mark.parametrize("target", TARGETS)
def test_a_run_whose_branch_is_gone_is_on_the_target_or_was_given_up(
    target: str, on_moved: OnMoved, *, decided: bool
) -> None:
    seen = replace(facts(target), branch_head=None, on_moved=on_moved, decided=decided)
    adopted = TARGETS[target][1] == "adopt"
    assert named(decide_finish(seen)) == ("adopt" if adopted else "PRG-N003")


@pytest.mark.parametrize("branch_head", [BASE, None], ids=["at the base", "gone"])
@pytest.mark.parametrize("target", TARGETS)
def test_a_run_without_a_publication_has_nothing_to_publish(
    target: str, branch_head: CommitId | None
) -> None:
    seen = replace(facts(target), run_head=BASE, branch_head=branch_head)
    assert named(decide_finish(seen)) == "nothing"


def test_the_base_is_refused_where_the_run_branch_has_more() -> None:
    """As where the workspace of begin was handed to finish instead of the last task's."""
    refusal = decide_finish(replace(facts("at the base"), run_head=BASE, branch_head=HEAD))
    assert isinstance(refusal, Refusal)
    assert refusal.code == "PRG-N001"
    assert BASE in refusal.reason
    assert HEAD in refusal.reason


def test_a_refusal_says_what_moved_and_what_to_do() -> None:
    refusal = decide_finish(facts("moved"))
    assert isinstance(refusal, Refusal)
    for part in (BASE, "h; a writer other than Perago", "perago head", "on_moved"):
        assert part in refusal.reason


def test_metadata_says_which_run_how_many_tasks_and_whose_workflow() -> None:
    metadata = MERGED.metadata
    assert metadata[RUN] == RUN_1.key
    assert metadata[RUN_TASKS] == "2"
    assert metadata[WORKFLOW_ID] == "w"
    assert metadata[STAGING_COMMIT] == HEAD
    assert metadata[EXPECTED_HEAD] == BASE


@pytest.mark.parametrize("published", [MERGED, SQUASHED], ids=["merged", "squashed"])
def test_no_task_takes_the_publication_of_a_run_for_its_own(published: CommitRecord) -> None:
    """A task whose input was the base finds the run on top of it: every policy has to refuse."""
    input_reference = WorkspaceReference(RUN_1.repository, RUN_1.branch, BASE)
    for policy in (head_parent, lineage, settled):
        for isolation in Isolation:
            seen = PublicationFacts(
                input_reference,
                walk(published),
                staged=None,
                logical_task_key="w/edit/0",
                execution_key="another",
                isolation=isolation,
            )
            assert isinstance(policy.decide(seen), Refusal), policy


RECORDS = st.sampled_from([MERGED, SQUASHED, MOVED, plain("z", PUBLISHED), plain("y", OTHER)])


def target_of(above: list[CommitRecord], *, reached: bool, truncated: bool) -> FirstParentWalk:
    """Any commits on top of each other, whether that is possible or not."""
    return walk(*above, reached=reached, truncated=truncated)


WALKS = st.builds(
    target_of,
    st.lists(RECORDS, min_size=1, max_size=4),
    reached=st.booleans(),
    truncated=st.booleans(),
)
FACTS = st.builds(
    FinishFacts,
    st.just(RUN_1),
    st.sampled_from([BASE, HEAD]),
    st.sampled_from([BASE, HEAD, OTHER, None]),
    st.booleans(),
    WALKS,
    st.sampled_from(OnMoved),
    st.sampled_from([None, "a was changed twice"]),
)


@given(FACTS)
def test_nothing_is_sent_unless_the_target_can_take_it(seen: FinishFacts) -> None:
    decision = decide_finish(seen)
    if isinstance(decision, MergeRun | RebaseRun):
        assert find_publication_of_run(RUN_1, HEAD, seen.walk) is None
        assert seen.run_head == HEAD
        assert seen.branch_head is not None
        assert seen.decided or seen.branch_head == HEAD
        assert seen.walk.reached
    if isinstance(decision, MergeRun):
        assert seen.walk.head.commit == BASE
    if isinstance(decision, RebaseRun):
        assert decision.head == seen.walk.head.commit != BASE
        assert seen.on_moved is OnMoved.REBASE
        assert seen.touched is None


@given(FACTS)
def test_what_is_published_is_found_whatever_else_is_seen(seen: FinishFacts) -> None:
    found = find_publication_of_run(RUN_1, seen.run_head, seen.walk)
    assert (found is not None) is isinstance(decide_finish(seen), Adopt)
    if found is not None:
        assert found.parents[0] == found.metadata[EXPECTED_HEAD]
