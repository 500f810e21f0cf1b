"""The registry of Spark workspaces: S3A paths on a real lakeFS, and local files without a server.

Each has a table `orders` at its input and the text `hello` at `notes/a.txt`.
"""

import secrets
from collections.abc import AsyncGenerator
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests.contract.adapters import Adapter

from perago.adapters.spark.session import SparkConfiguration
from perago.adapters.spark.workspace import SparkCall, open_workspace
from perago.domain.lakefs import BranchName, CommitId, RepositoryId
from perago.ports.workspace import SparkRoots, SparkWorkspace
from perago.testing.contract.lakefs_under_test import MAIN

ORDERS = b'{"order":1,"amount":10}\n{"order":2,"amount":20}\n{"order":3,"amount":30}\n'
INPUT = {"lake/orders/a.json": ORDERS, "lake/notes/a.txt": b"hello\n"}


@dataclass(frozen=True, slots=True)
class SparkHarness:
    """A place with that input."""

    place: SparkRoots

    def open(self, *, read_only: bool = False) -> AbstractContextManager[SparkWorkspace]:
        """Open it as a body would get it."""
        place = replace(self.place, output_root=None) if read_only else self.place
        name = secrets.token_hex(4)
        call = SparkCall(name, name, lambda: False, lambda _message, _facts: None)
        return open_workspace(SparkConfiguration(), place, call)


@asynccontextmanager
async def _files(request: pytest.FixtureRequest) -> AsyncGenerator[SparkHarness]:
    root: Path = request.getfixturevalue("tmp_path")
    for side in ("input", "output"):
        for path, content in INPUT.items():
            _write(root / side / path, content)
    yield SparkHarness(
        SparkRoots(
            repository=RepositoryId("repo"),
            input_ref=CommitId("input"),
            prefix="lake",
            input_root=f"{(root / 'input').as_uri()}/",
            output_root=f"{(root / 'output').as_uri()}/",
            staging_branch=BranchName("staging"),
        )
    )


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


@asynccontextmanager
async def _s3a(request: pytest.FixtureRequest) -> AsyncGenerator[SparkHarness]:
    # Imported on use: a run without servers must not load the vendor's client.
    from tests.contract.real_lakefs import open_real_lakefs  # noqa: PLC0415
    from tests.spark_scene import gateway_of  # noqa: PLC0415

    async with open_real_lakefs(request) as lakefs:
        repository = await lakefs.create_repository()
        commit = await lakefs.commit_files(repository, MAIN, INPUT)
        staging = BranchName("perago-staging-contract")
        await lakefs.branches.create(repository, staging, commit)
        yield SparkHarness(
            SparkRoots(
                repository=repository,
                input_ref=commit,
                prefix="lake",
                input_root=f"s3a://{repository}/{commit}/",
                output_root=f"s3a://{repository}/{staging}/",
                staging_branch=staging,
                gateway=gateway_of(request.getfixturevalue("lakefs_server")),
            )
        )


SPARK: dict[str, Adapter[SparkHarness]] = {
    "files": Adapter(_files, marker="spark"),
    "s3a": Adapter(_s3a, marker="lakefs"),
}
