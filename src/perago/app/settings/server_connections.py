"""What the container has to know, taken from the settings: addresses, keys, TLS, proxies.

Maps values; opens nothing.
"""

from pathlib import Path

from pydantic import SecretStr

from perago.app.connections import (
    ConductorConnection,
    Connections,
    LakeFSConnection,
    PipelineTerms,
    Proxies,
    TransferTerms,
)
from perago.app.settings.settings import Settings
from perago.domain.authoring_errors import RuntimeConfigError


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
        pipeline=PipelineTerms(
            kind=settings.pipeline,
            local_objects_max=settings.pipeline_objects,
            spark_master=settings.spark_master,
            spark_options=settings.spark_conf,
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
        ca_file=_certificates(settings),
        verify_tls=settings.tls_verify,
        proxies=proxies_of(settings),
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
        ca_file=_certificates(settings),
        verify_tls=settings.tls_verify,
        proxies=proxies_of(settings),
    )


def proxies_of(settings: Settings) -> Proxies:
    """The proxies of the settings, which have read the usual variables."""
    words = (word.strip() for word in (settings.no_proxy or "").split(","))
    return Proxies(settings.http_proxy, settings.https_proxy, tuple(filter(None, words)))


def _certificates(settings: Settings) -> Path | None:
    """The file of the settings, refused before anything is sent when it holds no certificate."""
    path = settings.tls_ca_file
    if path is not None:
        import ssl  # noqa: PLC0415  # needed only by those who have the file

        try:
            ssl.create_default_context(cafile=str(path))
        except OSError as error:  # an SSLError is one
            text = f"PERAGO_TLS_CA_FILE cannot be used: {path}: {error}"
            raise RuntimeConfigError(text, code="PRG-C006") from error
    return path


def _revealed(secret: SecretStr | None) -> str | None:
    return None if secret is None else secret.get_secret_value()
