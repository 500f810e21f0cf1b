"""The generated client as one value: its APIs, its request bodies, a time-out on every call.

`client.py` imports this on first use, because lakefs-sdk takes half a second. Knows nothing of
what is asked.
"""

import re
import socket
from dataclasses import dataclass
from typing import Any

import urllib3
from lakefs_sdk.api.branches_api import BranchesApi
from lakefs_sdk.api.commits_api import CommitsApi
from lakefs_sdk.api.config_api import ConfigApi
from lakefs_sdk.api.experimental_api import ExperimentalApi
from lakefs_sdk.api.objects_api import ObjectsApi
from lakefs_sdk.api.refs_api import RefsApi
from lakefs_sdk.api.repositories_api import RepositoriesApi
from lakefs_sdk.api.tags_api import TagsApi
from lakefs_sdk.api_client import ApiClient
from lakefs_sdk.configuration import Configuration
from lakefs_sdk.models.branch_creation import BranchCreation
from lakefs_sdk.models.commit_creation import CommitCreation
from lakefs_sdk.models.merge import Merge
from lakefs_sdk.models.object_copy_creation import ObjectCopyCreation
from lakefs_sdk.models.path_list import PathList
from lakefs_sdk.models.tag_creation import TagCreation
from urllib3.exceptions import InsecureRequestWarning
from urllib3.util import parse_url

from perago._version import __version__
from perago.adapters.lakefs.address import api_address, certificate_authority, proxy_address
from perago.adapters.lakefs.configuration import LakeFSConfiguration
from perago.adapters.lakefs.raw_http import RawHttp, TimeOuts, require_names

_KEEPALIVE_IDLE_SECONDS = 30
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_USER_AGENT = f"perago/{__version__}"


@dataclass(frozen=True, slots=True)
class LakeFSSdk:
    """Everything of the generated client that the adapter uses."""

    branches: BranchesApi
    commits: CommitsApi
    config: ConfigApi
    experimental: ExperimentalApi
    objects: ObjectsApi
    refs: RefsApi
    repositories: RepositoriesApi
    tags: TagsApi
    raw: RawHttp
    new_branch: type[BranchCreation] = BranchCreation
    new_commit: type[CommitCreation] = CommitCreation
    new_copy: type[ObjectCopyCreation] = ObjectCopyCreation
    new_merge: type[Merge] = Merge
    new_paths: type[PathList] = PathList
    new_tag: type[TagCreation] = TagCreation


class _TimedApiClient(ApiClient):
    """No call without a time-out: the generated client waits for ever by default."""

    def __init__(self, configuration: Configuration, timeout: tuple[float, float]) -> None:
        super().__init__(configuration)
        self._timeout = timeout
        self.user_agent = _USER_AGENT

    def call_api(self, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401
        path, _, names, *_ = arguments
        # The generated client leaves a placeholder as it is when its name is empty.
        require_names({kind: names.get(kind, "") for kind in _PLACEHOLDER.findall(path)})
        if options.get("_request_timeout") is None:
            options["_request_timeout"] = self._timeout
        client: Any = super()
        return client.call_api(*arguments, **options)


def open_sdk(settings: LakeFSConfiguration) -> LakeFSSdk:
    """Build the client; connections are opened by the first request."""
    address = api_address(settings.endpoint_url)
    configuration = Configuration(
        host=address, username=settings.access_key_id, password=settings.secret_access_key
    )
    # The generated client declares its optional settings as None and nothing else.
    options: Any = configuration
    configuration.verify_ssl = settings.verify_tls
    if not settings.verify_tls:
        # Switched off on purpose; urllib3 would say so again with every request.
        urllib3.disable_warnings(InsecureRequestWarning)
    configuration.ssl_ca_cert = certificate_authority(address, settings.ca_file)
    proxy = proxy_address(address) if settings.proxy is None else settings.proxy
    _use_proxy(options, proxy or None)
    configuration.connection_pool_maxsize = (
        settings.calls_concurrent + settings.transfers_concurrent
    )
    # A request that urllib3 sends again in silence could have its effect twice, and "unanswered"
    # would no longer mean one request. A redirect would turn a merge into a GET.
    options.retries = urllib3.Retry(total=False, redirect=False, raise_on_redirect=False)
    options.socket_options = _socket_options()
    timeout = (settings.connect_seconds, settings.answer_seconds)
    client = _TimedApiClient(configuration, timeout)
    return LakeFSSdk(
        branches=BranchesApi(client),
        commits=CommitsApi(client),
        config=ConfigApi(client),
        experimental=ExperimentalApi(client),
        objects=ObjectsApi(client),
        refs=RefsApi(client),
        repositories=RepositoriesApi(client),
        tags=TagsApi(client),
        raw=RawHttp(
            client.rest_client.pool_manager,
            address,
            {
                "Authorization": options.get_basic_auth_token(),
                "User-Agent": _USER_AGENT,
            },
            TimeOuts(
                answering=urllib3.Timeout(connect=timeout[0], read=timeout[1]),
                moving=urllib3.Timeout(
                    connect=settings.connect_seconds, read=settings.stalled_transfer_seconds
                ),
            ),
        ),
    )


def _use_proxy(options: Any, proxy: str | None) -> None:  # noqa: ANN401
    if proxy is None:
        return
    url = parse_url(proxy)
    options.proxy = url._replace(auth=None).url
    if url.auth is not None:
        options.proxy_headers = urllib3.make_headers(proxy_basic_auth=url.auth)


def _socket_options() -> list[tuple[int, int, int]]:
    """No waiting for more to send, and idle connections stay known to what is in between."""
    options = [
        (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    ]
    if hasattr(socket, "TCP_KEEPIDLE"):
        options.append((socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_IDLE_SECONDS))
    return options
