"""The plan: one policy asked, the whole publication in one value, refusals raised."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.domain.histories import FACTS, HEADS, INPUT, PLACE, STAGED, facts

from perago.domain import head_parent, lineage, settled
from perago.domain.attempt import AttemptSnapshot, AttemptStatus, ExecutionId
from perago.domain.commit_metadata import PublicationIdentity
from perago.domain.errors import PublishFenceError
from perago.domain.policy import (
    SHAPES,
    Level,
    Policy,
    WorkspacePublicationPlan,
    build_workspace_publication_plan,
)
from perago.domain.publication import (
    Adopt,
    Keep,
    MergeExactTree,
    MergeStaged,
    PublicationFacts,
    Refusal,
    Relocate,
)

ATTEMPT = AttemptSnapshot("wf", "t1", "mix", "mix_stems", AttemptStatus.IN_PROGRESS)
MINE = "perago-staging-mine"
MESSAGE = "perago confirm: mix_stems (mix) of workflow wf, attempt 1"


def identity(level: Level) -> PublicationIdentity:
    return PublicationIdentity(
        attempt=ATTEMPT,
        execution_id=ExecutionId("e1"),
        workspace=PLACE,
        prefix="/",
        staging_branch=MINE,
        policy=level.policy,
        level=level,
    )


AT_INPUT, OWN = "the input", "child, this execution"
PUBLISHED = HEADS[OWN].head
EFFECTS = [
    # level, head, changed, effect, supersedes
    (Level.HEAD_PARENT, AT_INPUT, True, MergeStaged(STAGED, INPUT), None),
    (Level.HEAD_PARENT, AT_INPUT, False, Keep(INPUT), None),
    (Level.HEAD_PARENT, OWN, True, Relocate(STAGED.commit, PUBLISHED.commit, True), None),  # noqa: FBT003
    (Level.HEAD_PARENT, OWN, False, Relocate(INPUT, PUBLISHED.commit, True), None),  # noqa: FBT003
    (Level.HEAD_PARENT_FENCED, AT_INPUT, True, MergeStaged(STAGED, INPUT), None),
    (Level.LINEAGE, AT_INPUT, True, MergeStaged(STAGED, INPUT), ""),
    (Level.LINEAGE, AT_INPUT, False, Keep(INPUT), ""),
    (Level.LINEAGE, OWN, True,
     MergeExactTree(STAGED.commit, STAGED, PUBLISHED.commit), PUBLISHED.commit),
    (Level.LINEAGE_FENCED, OWN, False,
     MergeExactTree(INPUT, None, PUBLISHED.commit), PUBLISHED.commit),
    (Level.SETTLED, AT_INPUT, True, MergeStaged(STAGED, INPUT), None),
    (Level.SETTLED, AT_INPUT, False, Keep(INPUT), None),
    (Level.SETTLED, OWN, True, Adopt(PUBLISHED), None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("level", "head", "changed", "effect", "supersedes"),
    EFFECTS,
    ids=[f"{row[0]}, {row[1]}, {'changed' if row[2] else 'unchanged'}" for row in EFFECTS],
)
def test_the_level_chooses_the_policy(
    level: Level,
    head: str,
    changed: bool,  # noqa: FBT001 - a column of the table
    effect: object,
    supersedes: str | None,
) -> None:
    staged = STAGED if changed else None
    plan = build_workspace_publication_plan(level, facts(HEADS[head], staged), identity(level))
    assert (plan.effect, plan.supersedes) == (effect, supersedes)
    assert plan.level == level
    assert (plan.repository, plan.branch, plan.input_ref) == ("songs", "main", INPUT)
    assert plan.base == HEADS[head].head.commit
    assert plan.staged == staged
    assert plan.message == MESSAGE


@pytest.mark.parametrize(
    ("level", "head", "changed", "said"),
    [
        (Level.HEAD_PARENT, AT_INPUT, True, ("perago-staging-1", "S", "A", None)),
        (Level.SETTLED, AT_INPUT, True, ("perago-staging-1", "S", "A", None)),
        (Level.LINEAGE, AT_INPUT, True, ("perago-staging-1", "S", "A", "")),
        (Level.LINEAGE, OWN, True, ("perago-staging-1", "S", "P", "P")),
        (Level.LINEAGE, OWN, False, (MINE, "A", "P", "P")),
    ],
    ids=["head-parent", "settled", "lineage, first", "lineage, over ours", "lineage, revert"],
)
def test_a_merge_says_what_was_staged_and_what_it_expects(
    level: Level,
    head: str,
    changed: bool,  # noqa: FBT001 - a column of the table
    said: tuple[str, str, str, str | None],
) -> None:
    staged = STAGED if changed else None
    plan = build_workspace_publication_plan(level, facts(HEADS[head], staged), identity(level))
    names = ("staging_branch", "staging_commit", "expected_head", "supersedes")
    assert tuple(plan.metadata.get(f"perago.{name}") for name in names) == said
    assert plan.metadata["perago.phase"] == "confirm"
    assert plan.metadata["perago.level"] == level


@pytest.mark.parametrize(
    ("level", "head", "changed"),
    [
        (Level.HEAD_PARENT, AT_INPUT, False),
        (Level.HEAD_PARENT, OWN, True),
        (Level.LINEAGE, AT_INPUT, False),
        (Level.SETTLED, OWN, True),
    ],
    ids=["keep", "relocate", "keep under lineage", "adopt"],
)
def test_an_effect_that_makes_no_commit_has_no_metadata(
    level: Level,
    head: str,
    changed: bool,  # noqa: FBT001 - a column of the table
) -> None:
    staged = STAGED if changed else None
    plan = build_workspace_publication_plan(level, facts(HEADS[head], staged), identity(level))
    assert plan.metadata == {}


@pytest.mark.parametrize(
    ("level", "head", "code", "text"),
    [
        (Level.HEAD_PARENT, "child, other task", "PRG-F003", "it belongs to wf/cut/0"),
        (Level.LINEAGE_FENCED, "off the chain", "PRG-F005",
         "no longer contains workspace input ref"),
        (Level.LINEAGE, "beyond the bound", "PRG-F004",
         "advanced beyond supported publish range"),
        (Level.SETTLED, "child, no metadata", "PRG-F002", "another writer published"),
    ],
    ids=["head-parent", "lineage", "lineage, too far", "settled"],
)  # fmt: skip
def test_a_refusal_is_raised_with_its_code(level: Level, head: str, code: str, text: str) -> None:
    with pytest.raises(PublishFenceError, match=text) as caught:
        build_workspace_publication_plan(level, facts(HEADS[head]), identity(level))
    assert caught.value.code == code
    assert str(caught.value).startswith("main cannot publish from input ref A; current head is ")


def test_each_policy_has_its_own_file() -> None:
    found = {policy: shape.decide for policy, shape in SHAPES.items()}
    assert found[Policy.HEAD_PARENT] is head_parent.decide
    assert found[Policy.LINEAGE] is lineage.decide
    assert found[Policy.SETTLED] is settled.decide
    files = {policy: decide.__module__ for policy, decide in found.items()}
    assert files == {each: f"perago.domain.{each.replace('-', '_')}" for each in Policy}


@given(st.sampled_from(Level), FACTS)
def test_every_plan_expects_the_head_it_was_made_for(level: Level, facts: PublicationFacts) -> None:
    decision = SHAPES[level.policy].decide(facts)
    if isinstance(decision, Refusal):
        with pytest.raises(PublishFenceError):
            build_workspace_publication_plan(level, facts, identity(level))
        return
    plan = build_workspace_publication_plan(level, facts, identity(level))
    assert plan.effect == decision
    assert plan.base == facts.walk.head.commit
    if isinstance(plan.effect, MergeStaged | MergeExactTree):
        assert plan.effect.expected_head == plan.base == plan.metadata["perago.expected_head"]


def outcome(level: Level, facts: PublicationFacts) -> WorkspacePublicationPlan | str:
    """The plan, its level left aside, or the text of the refusal."""
    try:
        plan = build_workspace_publication_plan(level, facts, identity(Level.SETTLED))
    except PublishFenceError as error:
        return str(error)
    return replace(plan, level=Level.SETTLED)


@given(FACTS)
def test_the_fence_changes_no_decision(facts: PublicationFacts) -> None:
    assert outcome(Level.HEAD_PARENT, facts) == outcome(Level.HEAD_PARENT_FENCED, facts)
    assert outcome(Level.LINEAGE, facts) == outcome(Level.LINEAGE_FENCED, facts)
