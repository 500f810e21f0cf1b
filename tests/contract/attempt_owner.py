"""A process that creates an attempt directory and dies without tidying up."""

import asyncio
import multiprocessing
import os
from pathlib import Path

from tests.contract.local_adapters import DIRECTORIES

from perago.ports.workspace import AttemptMarker


def crash_after_creating(
    adapter: str,
    root: Path,
    marker: AttemptMarker,
    staging: tuple[str, str] | None = None,
    outcome: tuple[str, str] | None = None,
) -> Path:
    """Let another process create the directory, maybe record something beside it, and die."""
    owner = multiprocessing.get_context("spawn").Process(
        target=_own, args=(adapter, root, marker, staging, outcome)
    )
    owner.start()
    owner.join()
    (directory,) = root.glob(f"task_id=*-exec={marker.execution_id}")
    return directory


def _own(
    adapter: str,
    root: Path,
    marker: AttemptMarker,
    staging: tuple[str, str] | None,
    outcome: tuple[str, str] | None,
) -> None:
    async def own() -> None:
        directories = DIRECTORIES[adapter](root)
        directory = await directories.create(marker)
        if staging is not None:
            await directories.record_staging(directory, *staging)
        if outcome is not None:
            await directories.keep_outcome(directory, *outcome)
        os._exit(0)

    asyncio.run(own())
