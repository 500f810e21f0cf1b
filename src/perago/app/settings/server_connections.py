"""What the container has to know, taken from the settings: addresses, keys, TLS, proxies.

Maps values; opens nothing.
"""

from urllib.parse import urlsplit

from pydantic import SecretStr

from perago.app.connections import (
    ConductorConnection,
    Connections,
    LakeFSConnection,
    TransferTerms,
)
from perago.app.settings.settings import Settings


def connections_of(settings: Settings) -> Connections:
    """Return the environment of this process; a service that is not configured is None."""
    return Connections(
        workspace_root=settings.workspace_root,
        lakefs=lakefs_connection(settings),
        conductor=conductor_connection(settings),
        transfer=TransferTerms(
            route=settings.transfer_route,
            requests_max=settings.transfer_concurrency,
            cache_directory=settings.cache_dir,
            cache_bytes_max=settings.cache_size,
        ),
    )


def lakefs_connection(settings: Settings) -> LakeFSConnection | None:
    """How to reach lakeFS, whatever adapter its address asks for."""
    url = settings.lakefs or settings.lakectl_server_endpoint_url
    if url is None:
        return None
    return LakeFSConnection(
        url=url,
        access_key_id=settings.lakectl_credentials_access_key_id or "",
        secret_access_key=_revealed(settings.lakectl_credentials_secret_access_key) or "",
        ca_file=settings.tls_ca_file,
        verify_tls=settings.tls_verify,
        proxy=proxy_for(url, settings),
    )


def conductor_connection(settings: Settings) -> ConductorConnection | None:
    """How to reach Conductor, whatever adapter its address asks for."""
    url = settings.conductor or settings.conductor_server_url
    if url is None:
        return None
    return ConductorConnection(
        url=url,
        auth_key=settings.conductor_auth_key,
        auth_secret=_revealed(settings.conductor_auth_secret),
        ca_file=settings.tls_ca_file,
        verify_tls=settings.tls_verify,
        proxy=proxy_for(url, settings),
    )


def proxy_for(url: str, settings: Settings) -> str | None:
    """The proxy on the way to an address, or None for hosts that `NO_PROXY` lists."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    for listed in (settings.no_proxy or "").split(","):
        suffix = listed.strip().lstrip(".")
        if suffix == "*" or (suffix and (host == suffix or host.endswith(f".{suffix}"))):
            return None
    return {"http": settings.http_proxy, "https": settings.https_proxy}.get(parts.scheme)


def _revealed(secret: SecretStr | None) -> str | None:
    return None if secret is None else secret.get_secret_value()
