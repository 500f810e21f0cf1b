"""conductor-python's API client, imported late and without its side effects.

Importing anything below `conductor.client` imports its runner, which sets the start method of
multiprocessing for the whole program (and on macOS the proxy variables). Both are put back.
"""

import multiprocessing
import os
from threading import Lock
from typing import Any, Final

from perago.adapters.conductor.connection_settings import ConductorSettings, api_address
from perago.adapters.conductor.http_connection import HttpConnection

_PROXY_VARIABLE: Final = "no_proxy"
_ONE_AT_A_TIME: Final = Lock()  # its modules import each other: a second thread would see a half


def sdk_client(settings: ConductorSettings, connection: HttpConnection) -> Any:  # noqa: ANN401  # untyped SDK
    """The SDK's client over our connection; asks for a token at once if there is a key."""
    with _ONE_AT_A_TIME:
        configuration_class, authentication_class, client_class = _classes()
    authentication = None
    if settings.auth_key is not None and settings.auth_secret is not None:
        authentication = authentication_class(
            key_id=settings.auth_key, key_secret=settings.auth_secret
        )
    configuration = configuration_class(
        server_api_url=api_address(settings.url), authentication_settings=authentication
    )
    configuration.http_connection = connection
    return client_class(configuration)


def _classes() -> tuple[Any, Any, Any]:
    start_method = multiprocessing.get_start_method(allow_none=True)
    proxies = os.environ.get(_PROXY_VARIABLE)
    try:
        from conductor.client.configuration.configuration import Configuration  # noqa: PLC0415
        from conductor.client.configuration.settings.authentication_settings import (  # noqa: PLC0415
            AuthenticationSettings,
        )
        from conductor.client.http.api_client import ApiClient  # noqa: PLC0415
    finally:
        multiprocessing.set_start_method(start_method, force=True)
        if proxies is None:
            os.environ.pop(_PROXY_VARIABLE, None)
        else:
            os.environ[_PROXY_VARIABLE] = proxies
    return Configuration, AuthenticationSettings, ApiClient
