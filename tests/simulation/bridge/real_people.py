"""What people and other tools do on a real lakeFS, as `commit_by_others` does it in memory."""

import asyncio
import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import final

from tests.contract.real_lakefs import RealLakeFS
from tests.simulation.bridge.served_time import ServedTime
from tests.simulation.mix import Foreign
from tests.simulation.others import OF_BRANCHES, WRITTEN
from tests.simulation.scene import MAIN

from perago.domain.attempt import as_mapping
from perago.domain.lakefs import BranchName, CommitId, RepositoryId
from perago.ports.lakefs import CommitRequest


@final
class RealPeople:
    """Somebody with the rights to everything in one repository."""

    def __init__(self, harness: RealLakeFS, repository: RepositoryId, times: ServedTime) -> None:
        self.repository = repository
        self._harness, self._times = harness, times
        self._ports = harness.installation()

    async def commit(self, kind: Foreign, count: int, source: str) -> CommitId | None:
        """What another tool does to the target branch; None where it is refused."""
        made: CommitId | None = None
        if kind in OF_BRANCHES and not source:
            return made
        if kind in WRITTEN:
            branch = BranchName(source or MAIN)
            return await self.commit_files({WRITTEN[kind]: str(count).encode()}, branch)
        match kind:
            case Foreign.EMPTY:
                made = await self.commit_files({}, message=f"empty {count}")
            case Foreign.MERGE:
                made = await self._merge_of_a_branch(BranchName(f"human-{count}"), count)
            case Foreign.REVERT:
                made = await self._revert(CommitId(source))
            case Foreign.CHERRY_PICK:
                made = await self._told(f"branches/{MAIN}/cherry-pick", {"ref": source})
            case _:
                made = await self._told(f"refs/{source}/merge/{MAIN}", {"message": "merge"})
        return made

    async def _merge_of_a_branch(self, branch: BranchName, count: int) -> CommitId | None:
        head = (await self._ports.branches.head(self.repository, MAIN)).commit
        await self._ports.branches.create(self.repository, branch, head)
        await self.commit_files({f"elsewhere/{count}.txt": b"human"}, branch)
        return await self._told(f"refs/{branch}/merge/{MAIN}", {"message": "merge"})

    async def _revert(self, commit: CommitId) -> CommitId | None:
        done = await self._told(f"branches/{MAIN}/revert", {"ref": commit, "parent_number": 0})
        if done is None:
            return None
        head = (await self._ports.branches.head(self.repository, MAIN)).commit
        self._times.made(head)
        return head

    async def commit_files(
        self, files: Mapping[str, bytes | None], branch: BranchName = MAIN, message: str = "files"
    ) -> CommitId:
        """Write files and commit them; without files, an empty commit."""
        for path, content in files.items():
            if content is not None:
                await self._harness.write(self.repository, branch, path, content)
        request = CommitRequest(self.repository, branch, message, {}, allow_empty=not files)
        made = await self._ports.commits.commit(request)
        self._times.made(made)
        return made

    async def _told(self, path: str, body: Mapping[str, object]) -> CommitId | None:
        """Ask past the ports for what only people do; None where it is refused."""
        status, answer = await asyncio.to_thread(
            self._harness.ask_past, self.repository, path, body
        )
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise OSError(f"{path}: {status} {answer!r}")
        if status >= HTTPStatus.BAD_REQUEST:
            return None
        told: Mapping[str, object] = as_mapping(json.loads(answer)) if answer else {}
        made = CommitId(str(told.get("reference") or told.get("id") or ""))
        self._times.made(made)
        return made
