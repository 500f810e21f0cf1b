"""One lakeFS as the container takes it: five ports over one client.

Decides nothing else. `check` is for start: it names a wrong address before any task runs.
"""

from perago.adapters.lakefs.branches import LakeFSBranches
from perago.adapters.lakefs.client import LakeFSClient
from perago.adapters.lakefs.commits import LakeFSCommits
from perago.adapters.lakefs.configuration import LakeFSConfiguration
from perago.adapters.lakefs.objects import LakeFSObjects
from perago.adapters.lakefs.repositories import LakeFSRepositories
from perago.adapters.lakefs.tags import LakeFSTags
from perago.ports.installations import LakeFSInstallation


def lakefs_installation(client: LakeFSClient) -> LakeFSInstallation:
    """The ports of the lakeFS that this client asks."""

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


def open_lakefs(configuration: LakeFSConfiguration) -> LakeFSInstallation:
    """The ports of one lakeFS; nothing is asked of it yet."""
    return lakefs_installation(LakeFSClient(configuration))
