"""A cherry-pick on a real lakeFS breaks the commit that it copies, for as long as that is cached.

The server writes the metadata of the pick into the cached record of the picked commit and computes
ids from that record. Seen on 1.86; a test that fails here after an upgrade is good news. The
in-memory lakeFS does the same, except that it leaves no branch that points nowhere.
"""

import pytest
from tests.contract.real_lakefs import connected

from perago.domain.lakefs import BranchName
from perago.ports.errors import BranchMissingError, ReferenceMissingError
from perago.testing.contract.lakefs_under_test import MAIN
from perago_servers import LakefsServer

pytestmark = pytest.mark.lakefs

OTHER = BranchName("other")
FROM_PICKED = BranchName("from-picked")


@pytest.mark.parametrize("metadata", [{}, {"key": "value"}], ids=["without metadata", "with"])
async def test_a_picked_commit_with_metadata_is_not_found_by_its_id(
    lakefs_server: LakefsServer, metadata: dict[str, str]
) -> None:
    async with connected(lakefs_server) as harness:
        repository = await harness.create_repository()
        base = await harness.commit_files(repository, MAIN, {"a": b"1"})
        await harness.branches.create(repository, OTHER, base)
        await harness.commit_files(repository, OTHER, {"b": b"1"})
        picked = await harness.commit_files(repository, MAIN, {"c": b"1"}, metadata=metadata)
        where = f"/repositories/{repository}/branches/{OTHER}/cherry-pick"
        await harness.tell("POST", where, {"ref": picked})

        if not metadata:
            assert (await harness.commits.read(repository, picked)).commit == picked
            await harness.branches.create(repository, FROM_PICKED, picked)
            return
        with pytest.raises(ReferenceMissingError):
            await harness.commits.read(repository, picked)
        with pytest.raises(ReferenceMissingError):
            await harness.branches.create(repository, FROM_PICKED, picked)
        with pytest.raises(BranchMissingError):
            await harness.branches.head(repository, FROM_PICKED)
        page = await harness.branches.list_page(repository, "")
        assert FROM_PICKED in [branch.name for branch in page.items]
