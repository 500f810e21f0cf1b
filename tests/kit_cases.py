"""Every fault of the kit with what must come of it, under `settled` and under `head-parent`.

One table for the unit tests and for both backends. Decides nothing; runs one task once a case.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel

from perago import (
    RetryPolicy,
    TaskControls,
    TaskDefinition,
    TimeoutPolicy,
    WorkspaceSpec,
    task,
)
from perago.app.authoring.task_declaration import task_of
from perago.app.page.model import (
    AttemptView,
    BranchView,
    CommitView,
    EventView,
    RepositoryView,
    SceneView,
    TaskView,
    WorkflowView,
)
from perago.domain.lakefs import CommitId
from perago.domain.outcome import TooManyTries
from perago.ports.errors import AccessDeniedError
from perago.testing import (
    Fault,
    PeragoEnvironment,
    Repository,
    WorkflowRun,
    answer,
    arrive_late,
    crash,
    drain,
    expire_lease,
    foreign_commit,
    lose_answer,
    lose_request,
    meanwhile,
    outage,
    refuse,
    unavailable,
    zombie,
)
from perago.testing.story import commit_kind

RETRIES = 3
LEASE_SECONDS = 4


class Params(BaseModel):
    """Nothing to say."""


class Runs(BaseModel):
    """Which run of the body this was."""

    run: int


@dataclass(frozen=True)
class Outcome:
    """What came of a case; `ends` has one word for each attempt, `runs` counts bodies."""

    workflow: str
    commits: tuple[str, ...]
    ends: tuple[str, ...]
    runs: int
    lost: int = 0


DONE = "COMPLETED recorded"
LATE = "COMPLETED superseded"
STALE = "NOT SENT superseded"
FAILED = "FAILED recorded"
DIED = "DIED"
BACK = "HANDED_BACK recorded"
PUBLISHED = ("published",)
ONE = Outcome("COMPLETED", PUBLISHED, (DONE,), 1)
MOVED_ON = Outcome("COMPLETED", PUBLISHED, (BACK, DONE), 1)
ANEW = Outcome("COMPLETED", PUBLISHED, (DIED, DONE), 2)
RESUMED = Outcome("COMPLETED", PUBLISHED, (DIED, DONE), 1)
TRIED_AGAIN = Outcome("COMPLETED", PUBLISHED, (FAILED, DONE), 2)
REFUSED = Outcome("FAILED", ("foreign",), ("FAILED_WITH_TERMINAL_ERROR recorded",), 1)
DROPPED = Outcome("COMPLETED", PUBLISHED, (DONE,), 1, lost=1)


@dataclass(frozen=True)
class Case:
    """Faults, and what follows under each policy."""

    id: str
    faults: tuple[Fault, ...]
    settled: Outcome
    head_parent: Outcome


def look() -> None:
    """Somebody who changes nothing."""


CASES = (
    Case("nothing goes wrong", (), ONE, ONE),
    Case("crash before the download", (crash(before="download"),), RESUMED, RESUMED),
    Case("crash before the body", (crash(before="function"),), RESUMED, RESUMED),
    Case("crash before staging", (crash(before="stage"),), ANEW, ANEW),
    Case("crash after staging", (crash(after="stage"),), ANEW, ANEW),
    Case("crash before the merge", (crash(before="merge"),), RESUMED, ANEW),
    Case("crash after the merge", (crash(after="merge"),), RESUMED, ANEW),
    Case("crash before completing", (crash(before="complete"),), RESUMED, ANEW),
    Case(
        "crash after completing",
        (crash(after="complete"),),
        Outcome("COMPLETED", PUBLISHED, (DIED,), 1),
        Outcome("COMPLETED", PUBLISHED, (DIED,), 1),
    ),
    Case("the merge's answer is lost", (lose_answer("merge"),), ONE, ONE),
    Case(
        "the first merge is lost and the second's answer",
        (lose_request("merge"), lose_answer("merge", nth=2)),
        ONE,
        ONE,
    ),
    Case("the staging's answer is lost", (lose_answer("stage"),), ONE, ONE),
    Case("the staging is lost", (lose_request("stage"),), ONE, ONE),
    Case("the merge arrives when its second one has published", (arrive_late("merge"),), ONE, ONE),
    Case(
        "the merge arrives late, and its sender died",
        (arrive_late("merge", until="idle"), crash(before="merge", nth=2)),
        RESUMED,
        ANEW,
    ),
    Case("the staging arrives late", (arrive_late("stage"),), ONE, ONE),
    Case("lakeFS is too busy to merge", (answer("merge", TooManyTries("busy")),), ONE, ONE),
    Case(
        "lakeFS refuses the staging branch",
        (refuse("branch", AccessDeniedError("no right to create branches")),),
        TRIED_AGAIN,
        TRIED_AGAIN,
    ),
    Case("somebody looks before the merge", (meanwhile(look, before="merge"),), ONE, ONE),
    Case("the completion's answer is lost", (lose_answer("complete"),), ONE, ONE),
    Case("the completion is lost", (lose_request("complete"),), ONE, ONE),
    Case("lakeFS is unavailable for a moment", (unavailable("head"),), ONE, ONE),
    Case("lakeFS is away before the merge", (outage(before="merge", seconds=1.0),), ONE, ONE),
    Case("lakeFS is away after the merge", (outage(after="merge", seconds=1.0),), ONE, ONE),
    Case("Conductor is away at the end", (outage(before="complete", seconds=1.0),), ONE, ONE),
    Case("the answer of an upload is lost", (lose_answer("upload"),), ONE, ONE),
    Case(
        "a zombie wakes after the acceptance",
        (zombie(attempt=1, until="accepted"),),
        Outcome("COMPLETED", PUBLISHED, (STALE, DONE), 1),
        Outcome("COMPLETED", PUBLISHED, (STALE, DONE), 2),
    ),
    Case(
        "a zombie wakes after the publication",
        (zombie(until="published"),),
        Outcome("COMPLETED", PUBLISHED, (STALE, DONE), 1),
        Outcome("COMPLETED", PUBLISHED, (STALE, DONE), 2),
    ),
    Case(
        "a zombie that has published",
        (zombie(after="merge"),),
        Outcome("COMPLETED", PUBLISHED, (STALE, DONE), 1),
        Outcome("COMPLETED", PUBLISHED, (STALE, DONE), 2),
    ),
    Case(
        "the lease runs out before publishing",
        (expire_lease(),),
        Outcome("COMPLETED", PUBLISHED, (STALE, DONE), 1),
        Outcome("COMPLETED", PUBLISHED, (STALE, DONE), 2),
    ),
    Case(
        "the lease runs out before completing",
        (expire_lease(before="complete"),),
        Outcome("COMPLETED", PUBLISHED, (LATE, DONE), 1),
        Outcome("COMPLETED", PUBLISHED, (LATE, DONE), 2),
    ),
    Case("a deploy before the body", (drain(before="function"),), MOVED_ON, MOVED_ON),
    Case("a deploy before the merge", (drain(before="merge"),), ONE, ONE),
    Case("a foreign commit after staging", (foreign_commit(after="stage"),), REFUSED, DROPPED),
    Case(
        "a foreign commit before the body", (foreign_commit(before="function"),), REFUSED, DROPPED
    ),
    Case(
        "a foreign commit after the merge",
        (foreign_commit(after="merge"),),
        Outcome("COMPLETED", ("published", "foreign"), (DONE,), 1),
        Outcome("COMPLETED", ("published", "foreign"), (DONE,), 1),
    ),
)


def counting_task(name: str = "clean") -> tuple[TaskDefinition, list[int]]:
    """A task that writes its run's number, and the list of its runs."""
    runs: list[int] = []

    # The lease of the real ground: whether a zombie finds its publish budget used up depends on it.
    controls = TaskControls(
        timeout=TimeoutPolicy(response_seconds=LEASE_SECONDS),
        retry=RetryPolicy(count=RETRIES, delay_seconds=0),
    )

    @task(
        name=name,
        owner_email="data@example.com",
        workspace=WorkspaceSpec(prefix="data"),
        controls=controls,
    )
    def clean(workspace: Path, params: Params) -> Runs:
        del params
        runs.append(len(runs) + 1)
        (workspace / "out.txt").write_text(f"run {runs[-1]}")
        return Runs(run=runs[-1])

    return task_of(clean), runs


async def outcome_of(env: PeragoEnvironment, faults: Sequence[Fault]) -> Outcome:
    """Run one task with these faults and say what came of it."""
    clean, runs = counting_task()
    repository, start = await counted_repository(env)
    env.plan(*faults)
    run = await env.run(clean, repository)
    assert env.pending_faults == (), await env.story_text()
    return await observed(env, run, start, runs=len(runs))


async def counted_repository(env: PeragoEnvironment) -> tuple[Repository, CommitId]:
    """The repository of every case, and where its history starts."""
    repository = await env.repository("repo", {"data/in.txt": "in", "elsewhere/x.txt": "x"})
    return repository, (await repository.head()).commit


async def observed(
    env: PeragoEnvironment, run: WorkflowRun, start: CommitId, *, runs: int
) -> Outcome:
    """What came of a run in the one repository of an environment."""
    (repository,) = env.repositories.values()
    accepted = (await env.story()).accepted_commits()
    history = await repository.history()
    above = history[: [record.commit for record in history].index(start)]
    if await run.status() == "COMPLETED":
        result = await run.result("clean")
        assert await repository.text("data/out.txt") == f"run {result['run']}", (
            await env.story_text()
        )
    return Outcome(
        workflow=str(await run.status()),
        commits=tuple(commit_kind(record, accepted) for record in reversed(above)),
        ends=tuple(f"{story.status} {story.recorded}".strip() for story in env.attempts),
        runs=runs,
        lost=len(await env.check_invariants(settled=True)),
    )


def hostile_scene(text: str) -> SceneView:
    """A scene in which everything that comes from tasks and servers is this text."""
    event = EventView(0.0, "output", text, {text: text})
    commit = CommitView(text, (), "staged", message=text, tags=(text,))
    branch = BranchView("main", (commit,), is_target=True)
    tasks = (TaskView(text, text, 1),)
    attempt = AttemptView(
        f"{text}-0", "", text, 1, text, worker=text, reason=text, ended=True, events=(event,)
    )
    return SceneView(
        title=text,
        status="",
        clock="seconds",
        policy=text,
        problems=(text,),
        workflows=(WorkflowView("", text, "", tasks=tasks),),
        attempts=(attempt,),
        repositories=(RepositoryView(text, (branch,)),),
    )


async def given_to_clean(repository: Repository) -> dict[str, object]:
    """The input of a workflow of `clean` alone."""
    return {"workspace": await repository.workspace(), "params": {"clean": {}}}


async def attempts_one_by_one(env: PeragoEnvironment) -> None:
    """Faults of their own, and between two of them a look at what the first has left."""
    clean, runs = counting_task()
    repository = await env.repository("repo", {"data/in.txt": "in"})
    given = await given_to_clean(repository)
    run = await env.start(clean, given)

    died = await env.next_attempt(crash(after="decide"))
    assert (died.number, died.status, runs) == (1, "DIED", [1])
    assert len(await repository.history()) == 2, "nothing is published"
    stopped = await env.next_attempt(zombie(before="merge"))
    assert (stopped.number, stopped.status) == (2, "RUNNING")
    assert await run.status() == "RUNNING"
    await env.until_idle()

    await env.assert_completed(run)
    assert (runs, env.pending_faults) == ([1], ())
    await env.assert_sound()
