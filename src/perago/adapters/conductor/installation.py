"""One Conductor as the container takes it: three ports over one client.

Decides nothing else. A wrong address is named by `TaskQueue.check`.
"""

import asyncio

from perago.adapters.conductor.client import SdkApiClient
from perago.adapters.conductor.connection_settings import ConductorSettings
from perago.adapters.conductor.lean_client import LeanApiClient
from perago.adapters.conductor.task_definitions import ConductorTaskDefinitions
from perago.adapters.conductor.task_queue import ConductorTaskQueue
from perago.adapters.conductor.workflows import ConductorWorkflows
from perago.ports.installations import ConductorInstallation


def open_conductor(settings: ConductorSettings) -> ConductorInstallation:
    """The ports of one Conductor; nothing is asked of it yet.

    Keys and proxies are the SDK's business; without them its client would only cost time.
    """
    client: SdkApiClient | LeanApiClient
    if settings.auth_key is None and settings.proxy is None:
        client = LeanApiClient(settings)
    else:
        client = SdkApiClient(settings)

    async def close() -> None:
        if isinstance(client, LeanApiClient):
            await client.close()
        else:
            await asyncio.to_thread(client.close)  # it waits for requests that have left

    return ConductorInstallation(
        queue=ConductorTaskQueue(client),
        definitions=ConductorTaskDefinitions(client),
        workflows=ConductorWorkflows(client),
        close=close,
    )
