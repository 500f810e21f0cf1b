"""What a worker does beside its attempts: ask the services at start, and collect garbage.

One failure never stops a pass, and no pass stops the worker.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from perago.app.authoring.task_definition import TaskDefinition
from perago.app.container import Container
from perago.app.gc.local_pass import sweep_directories
from perago.app.gc.remote_pass import GcTools, RemotePass
from perago.app.gc.retention_settings import retention_times
from perago.app.settings.settings import Settings
from perago.app.start_checks import check_registered
from perago.app.telemetry.listeners import write
from perago.app.worker.left_programs import end_left_programs
from perago.domain.authoring_errors import RuntimeConfigError
from perago.domain.references import RepositoryId
from perago.ports.errors import WorldError

LOGGER = logging.getLogger("perago.worker")
FAILURES_LOGGED_MAX = 20


@dataclass(frozen=True, slots=True)
class Upkeep:
    """The jobs of one worker."""

    settings: Settings
    tasks: Sequence[TaskDefinition]
    container: Container
    repositories: Callable[[], Collection[RepositoryId]]
    strict_taskdef: bool = False

    async def check_services(self) -> None:
        """The server is a Conductor, and knows the tasks."""
        conductor = self.container.conductor()
        try:
            await conductor.queue.check()
            different = await check_registered(
                conductor.definitions, self.tasks, strict=self.strict_taskdef
            )
        except RuntimeConfigError:
            raise
        except Exception as error:
            code = error.code if isinstance(error, WorldError) else "PRG-T019"
            text = f"failed to validate Conductor TaskDef: {error}"
            raise RuntimeConfigError(text, code=code) from error
        for name, differences in different.items():
            facts = {"task_name": name, "differences": [str(each) for each in differences]}
            write(LOGGER, logging.WARNING, "registered TaskDef differs from the code", facts)

    async def sweep_at_start(self) -> None:
        """What an earlier worker on this root left."""
        await self.sweep("at startup")

    async def sweep_periodically(self) -> None:
        """Until the worker ends."""
        while True:
            await asyncio.sleep(self.settings.workspace_gc_interval.total_seconds())
            await self.sweep("while running")
            for repository in sorted(self.repositories()):
                await self._collect(repository)

    async def sweep(self, when: str) -> None:
        """One pass over programs that bodies left, and over the attempt directories."""
        if programs := await asyncio.to_thread(end_left_programs):
            text = f"ended programs whose executors are gone {when}"
            write(LOGGER, logging.INFO, text, {"groups": programs})
        try:
            times = retention_times(self.settings)
            done = await sweep_directories(self.container.directories(), times)
        except Exception as error:  # noqa: BLE001 - litter is no reason to end a worker
            write(LOGGER, logging.WARNING, "workspace garbage collection failed", _why(error))
            return
        if done.removed or done.failed:
            facts = {"removed": list(map(str, done.removed)), "failed": list(map(str, done.failed))}
            text = f"swept abandoned attempt workspaces {when}"
            write(LOGGER, logging.INFO, text, facts)

    async def _collect(self, repository: RepositoryId) -> None:
        """One pass over a repository."""
        lakefs, conductor = self.container.lakefs(), self.container.conductor()
        tools = GcTools(
            lakefs.branches,
            lakefs.commits,
            lakefs.tags,
            conductor.queue,
            self.container.clock(),
        )
        try:
            judged = await RemotePass(tools, repository, retention_times(self.settings)).run()
        except Exception as error:  # noqa: BLE001 - litter is no reason to end a worker
            write(LOGGER, logging.WARNING, "remote garbage collection failed", _why(error))
            return
        removed = [each.name for each in judged if each.removed]
        failed = [f"{each.name}: {each.error}" for each in judged if each.error]
        if removed or failed:
            facts = {"repository": repository, "removed": removed, "failed": _first(failed)}
            write(LOGGER, logging.INFO, "garbage-collected a repository", facts)


def _first(failed: list[str]) -> list[str]:
    """As many as a log line may hold: a Conductor that is down fails every leftover."""
    more = len(failed) - FAILURES_LOGGED_MAX
    return [*failed[:FAILURES_LOGGED_MAX], *([f"and {more} more"] if more > 0 else [])]


def _why(error: Exception) -> dict[str, object]:
    return {"error": str(error)}
