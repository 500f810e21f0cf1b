"""One lakeFS as the container takes it: its ports over one client. Decides nothing."""

from perago.adapters.lakefs.client import LakeFSClient
from perago.adapters.lakefs.configuration import LakeFSConfiguration
from perago.adapters.lakefs.objects import LakeFSObjects
from perago.adapters.lakefs.references import (
    LakeFSBranches,
    LakeFSCommits,
    LakeFSRepositories,
    LakeFSTags,
)
from perago.ports.installations import LakeFSInstallation


def open_lakefs(configuration: LakeFSConfiguration) -> LakeFSInstallation:
    """The ports of one lakeFS; nothing is asked of it yet."""
    client = LakeFSClient(configuration)

    async def close() -> None:
        client.close()

    return LakeFSInstallation(
        branches=LakeFSBranches(client),
        commits=LakeFSCommits(client),
        tags=LakeFSTags(client),
        objects=LakeFSObjects(client),
        repositories=LakeFSRepositories(client),
        close=close,
    )
