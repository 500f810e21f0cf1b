"""Workflows as users write them: a task, a fork of three, their join, and a task after them.

The branches of the fork are SIMPLE tasks, or each is a SUB_WORKFLOW. Two of them publish below
prefixes of their own on one branch, `perago.join` finds the newest of the two, and the third has no
workspace. Every task function writes down when it begins and ends.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.integration.worker_scene import TaskModule, WorkerScene

from perago.domain.attempt import AttemptRecord
from perago.domain.lakefs import BranchName, CommitId
from perago.ports.conductor import WorkflowRecord
from perago.testing.contract.conductor_under_test import runs_child, simple, system, workflow_of

STEPS = ("first", "left", "right", "plain", "last")
BRANCHES = ("left", "right", "plain")
PREFIXES = {"first": "data", "left": "left", "right": "right", "last": "data"}
FRAGILE = "fork of tasks"
CHILDREN = "fork of workflows"
RESPONSE_SECONDS = 60
OWNER = "data@example.com"
BODY = """
run, step = os.urandom(8).hex(), {step!r}
def note(what):
    line = f"{{what}} {{run}} {{os.getppid()}} {{time.time()}}\\n"
    with open(f"{runs}/{{params.number}}-{{step}}", "a") as file:
        file.write(line)
note("begun")
time.sleep(params.seconds)
{write}
note("ended")
"""
WRITE = '(workspace / f"{step}.txt").write_text(run)'


@dataclass(slots=True)
class ForkedFlow:
    """The definitions, and the workflows of them that were started."""

    scene: WorkerScene
    modules: Mapping[str, TaskModule]
    names: Mapping[str, str]
    fenced: CommitId
    runs: Path
    started: dict[str, BranchName] = field(default_factory=dict[str, BranchName])
    tried: int = 0

    async def start(self, seconds: Mapping[str, float], *, children: bool) -> None:
        """One more workflow, on a branch of its own."""
        number = self.tried
        self.tried += 1
        branch = BranchName(f"own-{number}")
        repository = self.scene.repository
        await self.scene.lakefs.branches.create(repository, branch, self.fenced)
        place = {
            "repository": repository,
            "branch": branch,
            "refType": "commit",
            "ref": self.fenced,
        }
        params = {step: {"number": number, "seconds": seconds[step]} for step in STEPS}
        name = self.names[CHILDREN if children else FRAGILE]
        given = {"workspace": place, "params": params}
        self.started[await self.scene.conductor.workflows.start(name, given)] = branch

    @staticmethod
    def children_of(record: WorkflowRecord) -> list[str]:
        """The workflows that its rows started."""
        found = [row.output_data.get("subWorkflowId") for row in record.attempts]
        return [str(each) for each in found if each]

    async def rows_of(self, record: WorkflowRecord) -> list[AttemptRecord]:
        """Its rows that workers have, those of its children included."""
        polled = {module.name for module in self.modules.values()} | {"perago.join"}
        found = list(record.attempts)
        for child in await self.child_records(record):
            found += child.attempts
        # The row of a child is of the type of its task, and nobody polls it.
        rows = [row for row in found if "subWorkflowId" not in row.output_data]
        return [row for row in rows if row.snapshot.task_type in polled]

    async def child_records(self, record: WorkflowRecord) -> list[WorkflowRecord]:
        """The workflows that its rows started, as they are now."""
        read = self.scene.conductor.workflows.read
        found = [await read(child) for child in self.children_of(record)]
        return [child for child in found if child is not None]

    async def check_tree(self, workflow: str) -> None:
        """Four publications, one for each task with a workspace, each with the file of one run."""
        lakefs, repository = self.scene.lakefs, self.scene.repository
        branch = self.started[workflow]
        walk = await lakefs.commits.first_parents(repository, branch, self.fenced, commits_max=9)
        assert len(walk.above) == len(PREFIXES), (workflow, walk.above)
        number = branch.rpartition("-")[2]
        found: set[str] = set()
        for prefix in sorted(set(PREFIXES.values())):
            page = await lakefs.objects.list_page(repository, walk.head.commit, prefix=f"{prefix}/")
            found |= {entry.path for entry in page.items}
        assert found == {f"{prefix}/{step}.txt" for step, prefix in PREFIXES.items()} | {
            "data/a.txt"
        }
        for step, prefix in PREFIXES.items():
            content = await lakefs.objects.read(
                repository, walk.head.commit, f"{prefix}/{step}.txt"
            )
            runs = (self.runs / f"{number}-{step}").read_text(encoding="utf-8")
            assert content.decode() in runs.split(), (workflow, step)


async def declare_flow(scene: WorkerScene) -> ForkedFlow:
    """Install the fence, write the tasks, and register everything."""
    fenced = await scene.lakefs.install_fence(scene.repository)
    runs = scene.folder / "runs"
    runs.mkdir()
    modules = {step: await _declare(scene, step, runs) for step in STEPS}
    join = {"name": "perago.join", "ownerEmail": OWNER, "responseTimeoutSeconds": RESPONSE_SECONDS}
    await scene.conductor.definitions.put(
        join | {"retryDelaySeconds": 0, "retryCount": 10, "timeoutSeconds": 0}
    )
    names = {each: scene.conductor.unique(each.replace(" ", "_")) for each in (FRAGILE, CHILDREN)}
    for kind, name in names.items():
        await scene.conductor.workflows.put_definition(
            _definition(name, modules, children=kind == CHILDREN)
        )
    return ForkedFlow(scene, modules, names, fenced, runs)


async def _declare(scene: WorkerScene, step: str, runs: Path) -> TaskModule:
    """One task; the branches of the fork publish below their own prefixes."""
    prefix = PREFIXES.get(step)
    body = BODY.format(step=step, runs=runs, write=WRITE if prefix else "")
    module = await scene.declare(body, workspace=prefix is not None, response=RESPONSE_SECONDS)
    if step in BRANCHES and prefix is not None:
        text = module.path.read_text(encoding="utf-8")
        spec = f'prefix="{prefix}", isolation="prefix"'
        module.path.write_text(text.replace('prefix="data"', spec), encoding="utf-8")
    return module


def _definition(
    name: str, modules: Mapping[str, TaskModule], *, children: bool
) -> dict[str, object]:
    """First, a fork, its join, `perago.join`, last."""
    after_first, joined = "${first.output.workspace}", "${joined.output.result.workspace}"
    branches = [[_row(modules, step, after_first, child=children)] for step in BRANCHES]
    sides = [f"${{{step}.output.workspace}}" for step in ("left", "right")]
    return workflow_of(
        name,
        _row(modules, "first", "${workflow.input.workspace}"),
        system("FORK_JOIN", "fork", forkTasks=branches),
        system("JOIN", "wait", joinOn=list(BRANCHES)),
        simple("perago.join", "joined", {"params": {"workspaces": sides}}),
        _row(modules, "last", joined),
    )


def _row(
    modules: Mapping[str, TaskModule], step: str, workspace: str, *, child: bool = False
) -> dict[str, object]:
    """One task, or a workflow of that one task."""
    name = modules[step].name
    given: dict[str, object] = {"params": f"${{workflow.input.params.{step}}}"}
    if modules[step].has_workspace:
        given["workspace"] = workspace
    return runs_child(name, step, given) if child else simple(name, step, given)
