"""One repository of an environment, as a test reads and writes it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import final

from perago.domain.references import BranchName, CommitId, CommitRecord, RepositoryId, TagName
from perago.domain.reserved_paths import ACTIONS_PREFIX
from perago.testing.ground import Ground

MAIN = "main"


@final
@dataclass(frozen=True, slots=True)
class Repository:
    """Set-up and inspection past every worker; nothing here is struck by faults."""

    ground: Ground
    id: RepositoryId
    name: str
    commits_of_others: list[tuple[str, CommitId]] = field(
        default_factory=list[tuple[str, CommitId]]
    )

    async def commit(
        self,
        files: Mapping[str, bytes | str | None],
        branch: str = MAIN,
        *,
        message: str = "by somebody without Perago",
    ) -> CommitId:
        """Write files (None deletes one) and commit them."""
        content = {
            path: data.encode() if isinstance(data, str) else data for path, data in files.items()
        }
        commit = await self.ground.commit(self.id, BranchName(branch), content, message)
        self.commits_of_others.append((branch, commit))
        return commit

    async def create_branch(self, name: str, source: str = MAIN) -> None:
        """Create a branch at the head of another, or at a commit."""
        start = (await self.history(source))[0].commit
        await self.ground.create_branch(self.id, BranchName(name), start)

    async def files(self, ref: str = MAIN) -> dict[str, bytes]:
        """Every object of a branch or commit, without lakeFS's own actions."""
        found = await self.ground.files(self.id, ref)
        return {path: data for path, data in found.items() if not path.startswith(ACTIONS_PREFIX)}

    async def text(self, path: str, ref: str = MAIN) -> str:
        """One object as text."""
        files = await self.files(ref)
        assert path in files, f"{self.name}@{ref} has no {path}; it has {sorted(files)}"
        return files[path].decode()

    async def head(self, branch: str = MAIN) -> CommitRecord:
        """The head of a branch."""
        return (await self.history(branch))[0]

    async def history(self, ref: str = MAIN) -> Sequence[CommitRecord]:
        """A commit and its first parents, newest first."""
        return await self.ground.history(self.id, ref)

    async def branches(self) -> Mapping[BranchName, CommitId]:
        """Every branch with its head."""
        return await self.ground.branches(self.id)

    async def tags(self) -> Mapping[TagName, CommitId]:
        """Every tag with its commit."""
        return await self.ground.tags(self.id)

    async def workspace(self, branch: str = MAIN, ref: str | None = None) -> dict[str, object]:
        """The workspace input of a task: this repository and branch, at a commit or the head."""
        commit = (await self.history(ref or branch))[0].commit
        place: dict[str, object] = {"repository": self.id, "branch": branch}
        return {**place, "refType": "commit", "ref": commit}
