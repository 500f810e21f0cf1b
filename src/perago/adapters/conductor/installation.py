"""One Conductor as the container takes it: three ports over one client.

Decides nothing else. A wrong address is named by `TaskQueue.check`.
"""

from perago.adapters.conductor.client import ConductorClient
from perago.adapters.conductor.connection_settings import ConductorSettings
from perago.adapters.conductor.task_definitions import ConductorTaskDefinitions
from perago.adapters.conductor.task_queue import ConductorTaskQueue
from perago.adapters.conductor.workflows import ConductorWorkflows
from perago.ports.installations import ConductorInstallation


def open_conductor(settings: ConductorSettings) -> ConductorInstallation:
    """The ports of one Conductor; nothing is asked of it yet."""
    client = ConductorClient(settings)
    return ConductorInstallation(
        queue=ConductorTaskQueue(client),
        definitions=ConductorTaskDefinitions(client),
        workflows=ConductorWorkflows(client),
        close=client.close,
    )
