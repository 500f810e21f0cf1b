"""`perago.begin`: agree on the base of a run, and create its branch.

Each step is put if absent or looked at before, so a retry goes on where its predecessor ended.
"""

from contextlib import suppress
from typing import Annotated

from pydantic import BaseModel, Field, ValidationError

from perago.app.attempt.choose_target import find_chain, prove, put_mark, require_level
from perago.app.attempt.complete import check_attempt
from perago.app.attempt.context import Attempt, AttemptPorts
from perago.app.attempt.patience import LAKEFS
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.authoring.workspace_spec import WorkspaceOutput
from perago.domain.attempt import AttemptRecord, as_mapping
from perago.domain.errors import RunRefusedError
from perago.domain.lakefs import (
    BranchName,
    CommitId,
    CommitRecord,
    RepositoryId,
    TagName,
    WorkspaceReference,
)
from perago.domain.policy import Level, PolicySetting
from perago.domain.run import KEY_PATTERN, Run, RunKey, base_tag, run_branch, run_key, start_anew
from perago.domain.settled import FIRST_PARENT_COMMITS_MAX
from perago.ports.errors import BranchExistsError
from perago.ports.workspace import Phase

_Name = Annotated[str, Field(min_length=1)]


class BeginParams(BaseModel):
    """The target of a run, and the commit to start from if it is not the head."""

    repository: _Name
    branch: _Name
    ref: _Name | None = None


class RunReference(BaseModel):
    """A run that has begun, as finish needs it."""

    repository: _Name
    branch: _Name
    run_branch: _Name
    base: _Name
    key: Annotated[str, Field(pattern=KEY_PATTERN)]

    def as_value(self) -> Run:
        """The plain value the core works with."""
        return Run(
            RepositoryId(self.repository),
            BranchName(self.branch),
            CommitId(self.base),
            RunKey(self.key),
        )


class BeginResult(BaseModel):
    """The workspace of the first task of the run, and what finish needs."""

    workspace: WorkspaceOutput
    run: RunReference


def workspace_at(repository: str, branch: str, ref: str) -> WorkspaceOutput:
    """A workspace at a commit."""
    return WorkspaceOutput(repository=repository, branch=branch, ref_type="commit", ref=ref)


async def begin(attempt: Attempt, params: BeginParams) -> BeginResult:
    """Begin the run of this attempt, or go on with the one that an earlier attempt began."""
    ports = attempt.ports
    repository, branch = RepositoryId(params.repository), BranchName(params.branch)
    candidate = await _find_candidate(ports, params)
    chain = await find_chain(attempt, repository, candidate)
    key = run_key(attempt.row, chain, repository, branch)
    decided = await ports.lakefs.tags.read(repository, base_tag(key))
    base = decided or candidate.commit
    # A head is on its branch. A base that was decided was looked at before, and the target may have
    # moved since; what that means is for `finish` to say.
    if decided is None and params.ref is not None:
        await _check_ref(ports, repository, branch, base)
    await require_fence(ports, repository, branch, base)
    if decided is None:
        base = await put_if_absent(ports, repository, base_tag(key), candidate.commit)
        if base != candidate.commit:  # another attempt has decided meanwhile
            await require_fence(ports, repository, branch, base)
    facts = {"level": Level.SETTLED, "execution_key": key, "repository": repository}
    ports.progress.phase(Phase.POLICY, facts)
    ports.progress.phase(Phase.DECIDED, {"commit": base, "mine": base == candidate.commit})
    run = Run(repository, branch, base, key)
    await _open_run_branch(attempt, run)
    workspace = workspace_at(repository, run_branch(key), base)
    reference = RunReference.model_validate(run, from_attributes=True)
    return BeginResult(workspace=workspace, run=reference)


def run_begun_by(row: AttemptRecord) -> RunReference | None:
    """What a row of `perago.begin` put out; None for every other row."""
    if row.snapshot.task_type == BEGIN_TASK.name:
        with suppress(ValidationError):
            return RunReference.model_validate(as_mapping(row.output_data.get("result")).get("run"))
    return None


async def _find_candidate(ports: AttemptPorts, params: BeginParams) -> CommitRecord:
    """The commit that this attempt would begin from, if no attempt has decided yet."""
    lakefs, repository = ports.lakefs, RepositoryId(params.repository)
    branch, ref = BranchName(params.branch), params.ref
    if ref is None:
        ref = (await lakefs.branches.head(repository, branch)).commit
    target = WorkspaceReference(repository, branch, CommitId(ref))
    return await lakefs.known.check(target, ports.concurrency, writes=True)


async def _check_ref(
    ports: AttemptPorts, repository: RepositoryId, branch: BranchName, ref: CommitId
) -> None:
    """Refuse a commit that finish would refuse when all tasks have done their work."""
    walk = await ports.lakefs.commits.first_parents(
        repository, branch, ref, commits_max=FIRST_PARENT_COMMITS_MAX
    )
    if not walk.reached:
        text = f"{branch} is at {walk.head.commit} and does not contain {ref}, so no run from there"
        more = f"can be published on it; {start_anew(repository, branch)}"
        code = "PRG-F004" if walk.truncated else "PRG-F005"
        raise RunRefusedError(f"{text} {more}", code=code)


async def require_fence(
    ports: AttemptPorts, repository: RepositoryId, branch: BranchName, commit: CommitId
) -> None:
    """Raise FenceNotTrustedError unless the fence of a commit is one of ours and works."""
    target = WorkspaceReference(repository, branch, commit)
    fence = await prove(ports, target, await ports.lakefs.trust.file(repository, commit))
    require_level(PolicySetting.SETTLED, fence, target, decided=False)


async def put_if_absent(
    ports: AttemptPorts, repository: RepositoryId, tag: TagName, commit: CommitId
) -> CommitId:
    """Put a tag; the commit it stands on, which the first attempt chose."""
    tags, clock = ports.lakefs.tags, ports.clock
    return await ports.patience.until_done(
        LAKEFS, f"tag {tag}", lambda: put_mark(tags, clock, repository, tag, commit)
    )


async def _open_run_branch(attempt: Attempt, run: Run) -> None:
    """Create the branch at the base, or adopt the one that is there.

    An earlier attempt made it, and tasks may have published on it since. A branch of that name
    which does not stand on the base is none of ours.
    """
    ports, facts = attempt.ports, {"repository": run.repository, "branch": run.run_branch}
    ports.progress.phase(Phase.STAGING, facts)
    branches, commits = ports.lakefs.branches, ports.lakefs.commits

    async def create() -> bool:
        # An attempt that was replaced long ago would make the branch again that finish has removed,
        # and it would stand there as a run that was never finished.
        await check_attempt(attempt)
        try:
            await branches.create(run.repository, run.run_branch, run.base, hidden=True)
        except BranchExistsError:
            return False
        return True

    if await ports.patience.until_done(LAKEFS, f"branch {run.run_branch}", create):
        return
    walk = await commits.first_parents(
        run.repository, run.run_branch, run.base, commits_max=FIRST_PARENT_COMMITS_MAX
    )
    if not walk.reached:
        text = (
            f"branch {run.run_branch} exists at {walk.head.commit} and does not stand on base "
            f"{run.base} of the run; `lakectl branch delete "
            f"lakefs://{run.repository}/{run.run_branch}` removes it, then start a new workflow"
        )
        raise RunRefusedError(text, code="PRG-N006")


BEGIN_TASK = TaskDefinition(
    name="perago.begin",
    owner_email="perago@example.com",
    description="Begins a run: the tasks up to perago.finish publish on a branch of their own.",
    fn=begin,
    params_model=BeginParams,
    output_model=BeginResult,
    strict_params=True,  # a misspelt option would be taken for its default
    built_in=True,
)
