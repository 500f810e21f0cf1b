"""Which route a server's capabilities lead to: one question, for people who ask beforehand."""

from typing import cast

from perago.adapters.transfer.api_route import LakeFSApi
from perago.adapters.transfer.configuration import TransferConfiguration
from perago.adapters.transfer.connections import Connections
from perago.adapters.transfer.failures import AnsweredError, BrokenError, read_failure


def storage_capabilities(api: LakeFSApi) -> dict[str, object]:
    """What the server says of its block store; failures of the request pass through."""
    return cast("dict[str, object]", api.ask("GET", "/config", {})["storage_config"])


def route_of_server(configuration: TransferConfiguration) -> tuple[str, str]:
    """The route that `auto` means for this server, and why."""
    connections = Connections(configuration)
    try:
        signs = storage_capabilities(LakeFSApi(configuration, connections)).get("pre_sign_support")
    except (AnsweredError, BrokenError) as failure:
        raise read_failure("the server's configuration", failure) from failure
    finally:
        connections.close()
    if signs:
        mebibytes = configuration.presigned_bytes_min // (1024 * 1024)
        return f"presigned from {mebibytes} MiB, else api", "the block store of this lakeFS signs"
    return "api", "the block store of this lakeFS does not sign"
