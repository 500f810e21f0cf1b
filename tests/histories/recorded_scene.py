"""A scene whose servers are reached through recording doors, and what is found at its end."""

import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tests.histories.branches import BRANCH_LOG, LAKEFS
from tests.histories.check import check_history
from tests.histories.exchange import Json, read_history
from tests.histories.recording import NO_FAULTS, Network, Recording, recording
from tests.histories.rows import CONDUCTOR, WORKFLOW
from tests.integration.row_chaos import RowChaos
from tests.integration.worker_chaos import Chaos
from tests.integration.worker_scene import WorkerScene, worker_scene

from perago.domain.attempt import AttemptRecord
from perago.domain.lakefs import BranchName, CommitId
from perago.ports.conductor import WorkflowRecord
from perago_servers import ConductorServer, LakefsServer

COMMITS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class RecordedScene:
    """The scene, and the file that what happens in it is written to."""

    scene: WorkerScene
    recording: Recording

    async def keep(self, run: Chaos) -> None:
        """Write down what every workflow came to, and what is on its branch."""
        for workflow, branch in run.workflows.items():
            self.keep_workflow(run.records[workflow])
            await self.keep_branch(branch, run.fenced)

    async def keep_flow(self, run: RowChaos) -> None:
        """The same for workflows with children."""
        for workflow, branch in run.flow.started.items():
            record = run.ended[workflow]
            for each in [record, *(await run.flow.child_records(record))]:
                self.keep_workflow(each)
            await self.keep_branch(branch, run.flow.fenced)

    async def keep_branch(self, branch: BranchName, base: CommitId) -> None:
        """Write down the first parents of a branch, down to the commit it was made from."""
        commits, repository = self.scene.lakefs.commits, self.scene.repository
        walk = await commits.first_parents(repository, branch, base, commits_max=COMMITS_MAX)
        assert walk.reached, f"{branch} does not stand on {base}"
        records: list[Json] = [
            {"id": each.commit, "parents": list(each.parents), "metadata": dict(each.metadata)}
            for each in walk.commits
        ]
        facts: dict[str, Json] = {"repository": repository, "branch": branch}
        self.recording.found(BRANCH_LOG, {**facts, "commits": records})

    def keep_workflow(self, record: WorkflowRecord) -> None:
        """Write down a workflow that has ended."""
        rows: list[Json] = [_row(each) for each in record.attempts]
        status = str(record.status)
        facts: dict[str, Json] = {"workflowId": record.workflow_id, "status": status}
        self.recording.found(WORKFLOW, {**facts, "tasks": rows})


def _row(record: AttemptRecord) -> Json:
    output: Json = json.loads(json.dumps(dict(record.output_data)))
    return {
        "taskId": record.snapshot.task_id,
        "status": str(record.snapshot.status),
        "reasonForIncompletion": record.reason,
        "outputData": output,
    }


@asynccontextmanager
async def recorded_scene(
    name: str,
    servers: tuple[LakefsServer, ConductorServer],
    folder: Path,
    network: Network = NO_FAULTS,
) -> AsyncGenerator[RecordedScene]:
    """Workers and operators have doors of their own; only those of the workers lose anything."""
    lakefs, conductor = servers
    with recording(name) as kept:
        async with (
            kept.door("operator", LAKEFS, lakefs.endpoint) as lakefs_operator,
            kept.door("operator", CONDUCTOR, conductor.endpoint) as conductor_operator,
            kept.door("worker", LAKEFS, lakefs.endpoint, network) as lakefs_worker,
            kept.door("worker", CONDUCTOR, conductor.endpoint, network) as conductor_worker,
        ):
            doors = (
                replace(lakefs, endpoint=lakefs_operator),
                replace(conductor, endpoint=conductor_operator),
            )
            async with worker_scene(doors, folder) as opened:
                given = (
                    replace(lakefs, endpoint=lakefs_worker),
                    replace(conductor, endpoint=conductor_worker),
                )
                yield RecordedScene(replace(opened, servers=given), kept)


@asynccontextmanager
async def judged_scene(
    name: str,
    servers: tuple[LakefsServer, ConductorServer],
    folder: Path,
    network: Network = NO_FAULTS,
) -> AsyncGenerator[RecordedScene]:
    """The same; afterwards nothing may be wrong with the history. The file is kept."""
    path = None
    try:
        async with recorded_scene(name, servers, folder, network) as recorded:
            path = recorded.recording.path
            yield recorded
    finally:  # a run that fails otherwise is judged as well, and says where its history is
        verdict = None if path is None else check_history(list(read_history(path)))
        sys.stdout.write(f"\nhistory: {path}\n{verdict}\n")
    assert verdict is not None
    assert verdict.wrong == (), f"{path}: {verdict.wrong}"
    assert verdict.publications > 0, verdict
