"""Before anything moves: which policy applies here, and was this execution decided already?"""

from collections.abc import Sequence
from functools import partial
from typing import TypeAlias

from perago.app.attempt.context import Attempt, AttemptPorts, Target
from perago.app.attempt.patience import LAKEFS
from perago.domain import logical_execution as keys
from perago.domain import policy
from perago.domain.attempt import AttemptSnapshot, Stale, compare_wide
from perago.domain.checkpoints import checkpoint_branches_of_chain
from perago.domain.errors import FenceNotTrustedError, StaleAttemptError
from perago.domain.fence import FenceState, SeenFence
from perago.domain.lakefs import CommitId, CommitRecord, RepositoryId, TagName, WorkspaceReference
from perago.domain.publication import Isolation
from perago.ports.asking import pages
from perago.ports.errors import OutcomeUnknownError, TagExistsError, UnavailableError
from perago.ports.lakefs import TagRecord, Tags
from perago.ports.system import Clock
from perago.ports.workspace import Phase

TAG_PAGES_MAX = 100
"""100,000 marks or decisions of one task; a task has a few for each of its attempts. With more the
attempt fails, because it could overlook a decision."""
MARK_TRIES_MAX = 5
"""Without its mark a retry cannot go on, and failing costs it: a lost answer is not worth that.
With pauses of 0.1 to 0.4 s this outlasts a lost connection, and not an outage."""
MARK_PAUSE_SECONDS = 0.1  # the first pause; each one is longer by as much
PREFIX_BUDGET_SECONDS_MIN = 15.0
"""Across processes the losers of 32 publishers at 20 ms waited up to 5.4 s; a slower server gets
nearly three times that. A shorter budget is only warned of: few publishers may need less."""
NO_PREDECESSOR = (
    "Conductor names no retriedTaskId for a retry, so every attempt is an execution of its own"
)


Decisions: TypeAlias = tuple[keys.LogicalExecutionKey | None, CommitId | None, Sequence[TagRecord]]
"""The key of an execution, what was decided for it, and the decisions for other inputs."""
NO_DECISIONS: Decisions = None, None, ()


async def choose_target(attempt: Attempt) -> Target:
    """Check the input, look at its fence and for earlier decisions, and choose the level.

    Nothing is written before the input is known to be a commit, because a tag or a canary on a
    branch that the input names by mistake would stay. Where the input has no fence file, no
    attempt can have decided on it: a key names its input commit, and only `settled`, which needs
    the fence, makes decisions. So such an attempt leaves no mark and needs no right to tags.

    Raises FenceNotTrustedError when the setting relies on a fence that does not work.
    """
    ports, lakefs = attempt.ports, attempt.ports.lakefs
    workspace, spec = attempt.workspace, attempt.spec
    record, file = await ports.concurrency.together(
        lakefs.known.check(workspace, ports.concurrency, writes=True),
        lakefs.trust.file(workspace.repository, workspace.ref),
    )
    fence, decisions = file.state, NO_DECISIONS
    if fence is not FenceState.ABSENT:
        given = keys.ExecutionInput(workspace, spec.prefix, attempt.params)
        fence, decisions = await ports.concurrency.together(
            prove(ports, workspace, file), _look_for_decisions(attempt, given, record)
        )
    key, decided, others = decisions
    level = require_level(attempt.publication, fence, workspace, decided=decided is not None)
    isolation = Isolation(spec.isolation)
    if isolation not in level.shape.isolations:
        needed = " or ".join(
            each for each, one in policy.SHAPES.items() if isolation in one.isolations
        )
        text = f'isolation="{isolation}" needs policy {needed}, the level in force is {level}'
        command = f"perago fence install {workspace.repository} {workspace.branch}"
        raise FenceNotTrustedError(f"{text}; run `{command}`", terminal=True)
    ports.progress.phase(Phase.POLICY, {"level": level, "fence": fence, "execution_key": key})
    seconds = attempt.effect_seconds
    if isolation is Isolation.PREFIX and seconds < PREFIX_BUDGET_SECONDS_MIN:
        text = 'the publish budget is short for isolation="prefix": losing a race takes longer'
        ports.warn(text, seconds=seconds, expected=PREFIX_BUDGET_SECONDS_MIN)
    # Earlier attempts may have left checkpoints. One that resumes a decision never lists them, and
    # has to remove them all the same.
    if key and level.shape.decides_by_tag and not _is_first(attempt.row):
        attempt.leftovers.unlisted = (workspace.repository, checkpoint_branches_of_chain(key))
    return Target(attempt, workspace, spec.prefix, isolation, level, key, decided, others)


def _is_first(row: AttemptSnapshot) -> bool:
    """Whether no earlier execution can have worked on this task."""
    return row.retry_count == 0 and row.poll_count <= 1


async def prove(ports: AttemptPorts, workspace: WorkspaceReference, file: SeenFence) -> FenceState:
    """Only a file that is one of ours is worth a canary."""
    if file.state is not FenceState.TRUSTED:
        return file.state
    return await ports.lakefs.trust.proven(workspace.repository, workspace.ref, file.version)


def require_level(
    setting: policy.PolicySetting,
    fence: FenceState,
    workspace: WorkspaceReference,
    *,
    decided: bool,
) -> policy.Level:
    """The level in force, or FenceNotTrustedError: the setting relies on a fence that fails."""
    choice = policy.choose_level(setting, fence, decision_found=decided)
    if isinstance(choice, policy.PolicyRefusal):
        reason = choice.on(workspace.repository, workspace.branch)
        raise FenceNotTrustedError(reason, code=choice.code, terminal=choice.terminal)
    return choice


async def _look_for_decisions(
    attempt: Attempt, given: keys.ExecutionInput, record: CommitRecord
) -> Decisions:
    """The key, its decision, and the decisions of the same chain on other inputs.

    A plain first attempt that cannot end under `settled` does not ask: no attempt can have
    decided for it before. A retry asks for all decisions of its chain, because its input
    expressions may have resolved to something else than those of its predecessor.
    """
    row, tags = attempt.row, attempt.ports.lakefs.tags
    repository = given.workspace.repository
    if _is_first(row) and not policy.may_decide_by_tag(attempt.publication):
        return NO_DECISIONS
    chain = await find_chain(attempt, repository, record)
    key = keys.execution_key(row, chain, given)
    mine = keys.decision_tag(key)
    if row.retry_count == 0:
        return key, await tags.read(repository, mine), ()
    found = await list_tags(tags, repository, keys.decision_tags_of_chain(key))
    decided = next((tag.commit for tag in found if tag.name == mine), None)
    return key, decided, [tag for tag in found if tag.name != mine]


async def find_chain(attempt: Attempt, repository: RepositoryId, record: CommitRecord) -> str:
    """The hash of the chain of retries that an attempt belongs to.

    A plain first attempt is its own chain and pays nothing. One that was handed out before asks
    whether its chain was reset since.
    """
    ports, row, tags = attempt.ports, attempt.row, attempt.ports.lakefs.tags
    if row.retry_count == 0:
        known = row.poll_count > 1
        marks = await _read_marks(tags, repository, row) if known else {}
        return keys.chain_hash(row, row, marks)
    if row.retried_task_id is None and NO_PREDECESSOR not in ports.warned:
        ports.warned.add(NO_PREDECESSOR)
        ports.warn(NO_PREDECESSOR)
    workflow = await ports.queue.read_workflow(row.workflow_id)
    # Compared before any mark is put: a zombie would put one for a row that is another
    # execution's by now. One read serves both, so the rows are those of the comparison.
    verdict = compare_wide(row, workflow)
    if isinstance(verdict, Stale):
        raise StaleAttemptError(row.task_id, stale=verdict)
    chain = keys.retry_chain(row, workflow.tasks if workflow else ())
    # Every mark is put if absent, so all of it may be done again.
    return await ports.patience.until_done(
        LAKEFS, "marks", lambda: seal_chain(tags, ports.clock, repository, chain, record)
    )


async def seal_chain(
    tags: Tags,
    clock: Clock,
    repository: RepositoryId,
    chain: Sequence[AttemptSnapshot],
    record: CommitRecord,
) -> str:
    """Put the marks that a chain of rows lacks, and return the hash of the chain they make.

    Its newest row is that of the attempt that asks, `record` the attempt's input commit.
    """
    row = chain[0]
    marks = await _read_marks(tags, repository, row)
    found = keys.find_epoch(chain, marks, record)
    while isinstance(found, keys.Unsealed):
        tag = keys.attempt_mark_tag(found.row)
        marks[keys.mark_of(found.row)] = await put_mark(tags, clock, repository, tag, found.commit)
        found = keys.find_epoch(chain, marks, record)
    return keys.chain_hash(row, found, marks)


async def put_mark(
    tags: Tags, clock: Clock, repository: RepositoryId, mark: TagName, commit: CommitId
) -> CommitId:
    """Put a mark until it is surely there; the commit it stands on, which the first one chose."""
    for number in range(1, MARK_TRIES_MAX + 1):
        try:
            await tags.create(repository, mark, commit)
        except TagExistsError:  # an earlier try of ours, or another attempt of this chain
            sealed = await tags.read(repository, mark)
            if sealed is not None:
                return sealed
        except (OutcomeUnknownError, UnavailableError):
            if number == MARK_TRIES_MAX:
                raise
            await clock.sleep(MARK_PAUSE_SECONDS * number)
        else:
            return commit
    text = f"tag {mark} is taken and cannot be read"
    raise UnavailableError(text)


async def _read_marks(
    tags: Tags, repository: RepositoryId, row: AttemptSnapshot
) -> dict[keys.AttemptMark, CommitId]:
    """All marks of an attempt's task, and the commits they stand on."""
    found = await list_tags(tags, repository, keys.attempt_marks_of_task(row))
    named = ((keys.parse_attempt_mark(tag.name), tag.commit) for tag in found)
    return {mark: commit for mark, commit in named if mark is not None}


async def list_tags(tags: Tags, repository: RepositoryId, prefix: str) -> list[TagRecord]:
    """All tags whose names begin with a prefix."""
    listed = pages(partial(tags.list_page, repository, prefix), pages_max=TAG_PAGES_MAX)
    return [tag async for page in listed for tag in page.items]
