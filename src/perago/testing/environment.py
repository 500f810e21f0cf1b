"""`PeragoEnvironment` and `TaskEnvironment`: a test runs workflows or one task on real steps.

An environment has a lakeFS, a Conductor, workers, planned faults, and the story of what happened.
By default the servers are in memory and time is virtual; what a test says is the same on real
servers.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self, final

from pydantic import BaseModel

from perago.app.attempt.context import AttemptSettings
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.authoring.workflow_definition import reference_of
from perago.app.telemetry.listeners import AttemptListener
from perago.domain.attempt import AttemptStatus
from perago.domain.errors import PeragoError
from perago.domain.fence import FENCE_FILE
from perago.domain.lakefs import BranchName, RepositoryId
from perago.domain.paths import FENCE_PATH
from perago.domain.policy import PolicySetting, asked_shapes
from perago.ports.conductor import NO_DOMAINS, TerminalUpdate
from perago.testing.definitions import (
    TaskFunction,
    WorkflowSource,
    built_in_tasks_of,
    definition_of,
    renamed,
    sequence,
    task_names_in,
    taskdef_of,
)
from perago.testing.embedded_workers import EmbeddedWorkers
from perago.testing.faults import Fault
from perago.testing.file_trees import Files, diff_lines, read_tree
from perago.testing.servers import MAIN, MemoryServers, Repository, Servers
from perago.testing.story import AttemptStory, Story, WorkflowRun, broken_invariants, tell_story
from perago.testing.trial import TaskRun, run_task_once, trial_prefix

# Far above what a server takes to answer, so that a busy machine fails no test. One that hangs ends
# the call with an error.
PERSON_SECONDS = 30.0


class FaultOfUnknownTaskError(PeragoError, ValueError):
    """A planned fault names a task that neither a name nor a reference name means."""

    code = "PRG-X007"


@final
class PeragoEnvironment:
    """One environment; use it in a `with` block, or let the fixture `perago_env` close it."""

    def __init__(
        self,
        *,
        policy: str = PolicySetting.SETTLED,
        fence: bool = True,
        servers: Servers | None = None,
        require_ownership: bool = False,
        strict_input: bool = False,
        checkpoint_seconds: float = 0.0,
    ) -> None:
        self.servers = MemoryServers() if servers is None else servers
        self.fence = fence
        self.settings = AttemptSettings(
            "worker",
            publication=PolicySetting(policy),
            require_ownership=require_ownership,
            strict_input=strict_input,
            keeps_outcomes=False,  # each attempt of an environment is a worker with its own root
            # A task function takes no time of the environment's clock: each call takes a copy.
            checkpoint_seconds=checkpoint_seconds,
        )
        self.repositories: dict[RepositoryId, Repository] = {}
        self.runs: list[WorkflowRun] = []
        self._task_names: set[str] = set()
        self._embedded = EmbeddedWorkers(self.servers, self.settings, self.repositories)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop what still runs and leave nothing on the disk."""
        self._embedded.stop()
        self.servers.close()

    @property
    def seconds(self) -> float:
        """The environment's seconds since its start."""
        return self._embedded.seconds

    @property
    def attempts(self) -> tuple[AttemptStory, ...]:
        """The stories of all attempts, in the order in which they were polled."""
        return tuple(self._embedded.stories)

    @property
    def pending_faults(self) -> tuple[Fault, ...]:
        """Planned faults whose moment has not come, and those that happen each time."""
        return tuple(self._embedded.pending)

    def plan(self, *faults: Fault) -> None:
        """Add faults; each happens once, or with `always` each time."""
        self._embedded.pending.extend(faults)

    def watch(self, seen: Callable[[], None]) -> None:
        """Call `seen` after everything that happens in an attempt, while it happens."""
        self._embedded.watchers.append(seen)

    def listen(self, listener: AttemptListener) -> None:
        """Hand the events of attempts that begin from now on to a reader of your own."""
        self._embedded.listeners.append(listener)

    def use_policy(self, policy: str) -> None:
        """Attempts that begin from now on publish under another policy."""
        self._embedded.use(publication=PolicySetting(policy))

    def use_patience(self, seconds: float) -> None:
        """Attempts that begin from now on wait so long for a service that is away."""
        self._embedded.use(patience_seconds=seconds)

    async def repository(
        self, name: str = "repo", files: Mapping[str, bytes | str] | None = None
    ) -> Repository:
        """A new repository with one commit of these files, and the fence unless switched off."""
        repository = Repository(
            self.servers, await self.servers.create_repository(self.servers.unique(name)), name
        )
        self.repositories[repository.id] = repository
        given: dict[str, bytes | str | None] = dict(files or {})
        if self.fence:
            given[FENCE_PATH] = FENCE_FILE
        await repository.commit(given, message="the first files")
        return repository

    async def register(self, *tasks: TaskDefinition | TaskFunction) -> None:
        """Put the TaskDefs on Conductor; workers of this environment poll these tasks."""
        for task in map(definition_of, tasks):
            definition = self.servers.task_definition(taskdef_of(task))
            await self.servers.conductor.definitions.put(definition)
            self._embedded.tasks[task.name] = task
            self._task_names.add(task.name)

    async def define(self, *definitions: Mapping[str, object]) -> str:
        """Put workflow definitions on Conductor; the name that the first of them has there.

        Their built-in tasks are registered, and the workers of this environment serve them.
        """
        names: list[str] = []
        for definition in definitions:
            used = task_names_in(definition)
            self._task_names |= used
            await self.register(*built_in_tasks_of(used))
            own = renamed(definition, self.servers.unique)
            own.setdefault("ownerEmail", "perago@example.com")  # tests need not name an owner
            await self.servers.conductor.workflows.put_definition(own)
            names.append(str(own["name"]))
        return names[0]

    async def start(
        self,
        what: WorkflowSource | TaskDefinition | TaskFunction,
        workflow_input: Mapping[str, object] | None = None,
    ) -> WorkflowRun:
        """Define and start a workflow; a task is a workflow of one task and gets registered.

        Of several definitions the first is the workflow, and the others are its children.
        """
        if isinstance(what, TaskDefinition) or callable(what):
            task = definition_of(what)
            await self.register(task)
            definitions: list[Mapping[str, object]] = [sequence(reference_of(task.name), task)]
        else:
            definitions = [what] if isinstance(what, Mapping) else list(what)
        name = await self.define(*definitions)
        self._task_names |= task_names_in(workflow_input)
        domain = self.servers.domain
        run_id = await self.servers.conductor.workflows.start(
            name,
            dict(workflow_input or {}),
            task_to_domain=NO_DOMAINS if domain is None else {"*": domain},
        )
        title = str(definitions[0]["name"])
        run = WorkflowRun(run_id, title, self.servers.conductor.workflows)
        self.runs.append(run)
        return run

    async def run(
        self,
        task: TaskDefinition | TaskFunction,
        repository: Repository | None = None,
        *,
        branch: str = MAIN,
        params: Mapping[str, object] | None = None,
    ) -> WorkflowRun:
        """Run one task on the head of a repository's branch, to the end."""
        definition = definition_of(task)
        given: dict[str, object] = {"params": {reference_of(definition.name): dict(params or {})}}
        if repository is not None:
            given["workspace"] = await repository.workspace(branch)
        elif definition.has_workspace:
            raise ValueError(
                f"{definition.name} has a workspace, found no repository; "
                "expected run(task, await env.repository(...))"
            )
        run = await self.start(task, given)
        await self.until_idle()
        return run

    async def complete_step(
        self,
        run: WorkflowRun,
        reference: str,
        output: Mapping[str, object] | None = None,
        *,
        refused: str | None = None,
    ) -> None:
        """Complete a step that waits for a person, such as a HUMAN; `refused` fails it for good."""
        waiting = [
            row for row in await run.attempts(reference) if not row.snapshot.status.is_terminal
        ]
        assert waiting, f"{reference} of workflow {run.name} does not wait for a person"
        status = AttemptStatus.COMPLETED
        if refused is not None:
            status = AttemptStatus.FAILED_WITH_TERMINAL_ERROR
        update = TerminalUpdate(waiting[-1].snapshot, "a person", status, output or {}, refused)
        queue = self.servers.conductor.queue
        await queue.complete(update, timeout_seconds=PERSON_SECONDS)

    async def until_idle(self) -> None:
        """Let workers work and time pass until nothing more can happen.

        Raises FaultOfUnknownTaskError when a fault waits for a task that this environment does not
        know: it would never happen, and the test would pass without it.
        """
        await self._embedded.work([run.id for run in self.runs])
        self._refuse_unknown_tasks(self.pending_faults)

    async def next_attempt(self, *faults: Fault) -> AttemptStory:
        """Let one worker run the next attempt, and nothing else happen; the story of it.

        Time passes until a row waits, such as for the lease of a worker that died. The faults are
        this attempt's, whatever its number; one that did not happen by its end is an
        AssertionError. `until_idle` brings the rest to its end.
        """
        story, missed = await self._embedded.next_attempt([run.id for run in self.runs], faults)
        self._refuse_unknown_tasks([*self.pending_faults, *missed])
        assert not missed, (
            f"the attempt ended as {story.status}, and a fault never happened: "
            f"{', '.join(str(fault.moment) for fault in missed)}"
        )
        return story

    def _refuse_unknown_tasks(self, faults: Sequence[Fault]) -> None:
        known = self._task_names.union(each.reference for each in self.attempts)
        for fault in faults:
            name = fault.moment.task
            # The reference name of a step in a loop ends with its iteration.
            if name is not None and not {name, name.partition("__")[0]} & known:
                raise FaultOfUnknownTaskError(
                    f"a fault is planned for task {name!r}, and there is none of that name; "
                    f"expected a task name or reference name: {', '.join(sorted(known))}"
                )

    async def story(self) -> Story:
        """What happened, and the commits as they are now."""
        repositories = self.repositories.values()
        return await tell_story(self.servers.conductor, repositories, self.runs, self.attempts)

    async def story_text(self) -> str:
        """The story as text: attempts with their phases and faults, commits of every branch."""
        # Imported on use: a test that passes shows nothing.
        from perago.testing.story_views import story_lines  # noqa: PLC0415

        return "\n".join(story_lines(await self.story()))

    async def check_invariants(self, *, settled: bool | None = None) -> list[str]:
        """What was promised and does not hold, in words; empty when all is well."""
        asked = asked_shapes(self.settings.publication).values()
        strict = all(each.decides_by_tag for each in asked) if settled is None else settled
        commits = {found.id: found.commits_of_others for found in self.repositories.values()}
        return list(broken_invariants(await self.story(), commits, settled=strict))

    async def assert_sound(self) -> None:
        """Fail with the whole story when an invariant is broken."""
        broken = await self.check_invariants()
        if broken:
            raise AssertionError("\n".join(broken) + "\n\n" + await self.story_text())

    async def assert_completed(self, run: WorkflowRun) -> None:
        """Fail with the whole story unless a workflow completed."""
        record = await run.read()
        if record.status != "COMPLETED":
            found = f"workflow {run.name}: expected COMPLETED, found {record.status}"
            why = f": {record.reason}" if record.reason else ""
            raise AssertionError(f"{found}{why}\n\n" + await self.story_text())

    async def assert_files(
        self, repository: Repository, expected: Mapping[str, bytes | str], branch: str = MAIN
    ) -> None:
        """Fail with what differs and the story unless a branch holds exactly these files."""
        wanted = {
            path: data.encode() if isinstance(data, str) else data
            for path, data in expected.items()
        }
        found = await repository.files(BranchName(branch))
        lines = [
            f"  {path}: expected {wanted.get(path)!r}, found {found.get(path)!r}"
            for path in sorted({*wanted, *found})
            if wanted.get(path) != found.get(path)
        ]
        if lines:
            raise AssertionError(
                f"{repository.name}@{branch} differs:\n"
                + "\n".join(lines)
                + "\n\n"
                + await self.story_text()
            )


@final
class TaskEnvironment:
    """Runs one attempt of a task on a copy of its input, on servers in memory."""

    def run(
        self,
        task: TaskDefinition | TaskFunction,
        files: Mapping[str, bytes | str] | Path | None = None,
        params: Mapping[str, object] | BaseModel | None = None,
    ) -> TaskRun:
        """Run once; a failure is a status and a reason, as Conductor would be told."""
        definition = definition_of(task)
        given = params.model_dump(mode="json") if isinstance(params, BaseModel) else (params or {})
        if isinstance(files, Path):
            tree: Files = read_tree(files, prefix=trial_prefix(definition, given))
        else:
            tree = {path: _content(content) for path, content in (files or {}).items()}
        with run_task_once(definition, given, tree) as done:
            # The directory goes with the block.
            return replace(done, before=dict(done.before), files=dict(done.files))

    def assert_completed(self, run: TaskRun) -> None:
        """Fail with everything that is known unless a run completed."""
        if not run.completed:
            raise AssertionError("\n".join(describe(run)))


def _content(content: bytes | str) -> bytes:
    return content.encode() if isinstance(content, str) else content


def describe(run: TaskRun) -> list[str]:
    """A run for people: status, reason, verdicts, output, difference."""
    lines = [f"{run.status}: {run.reason}" if run.reason else str(run.status)]
    if run.result is not None:
        lines.append(f"result: {dict(run.result)}")
    for verdict in run.guardrails:
        found = "holds" if verdict.holds else f"BROKEN: {verdict.violation}"
        lines.append(f"{verdict.phase} {verdict.kind}({verdict.path!r}) {found}")
    lines += [f"warning: {warning}" for warning in run.warnings]
    lines += [f"| {line}" for line in run.lines]
    lines += diff_lines(run.before, run.files)
    if run.traceback:
        lines += run.traceback.rstrip().splitlines()
    return lines
