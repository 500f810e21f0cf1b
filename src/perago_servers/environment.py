"""Servers as environment variables, so that a run can use servers that another one started.

Decides the names only: what `up` prints is what the test fixtures read.
"""

import os

from perago_servers.conductor import ConductorServer
from perago_servers.lakefs import LakefsServer
from perago_servers.toxiproxy import ToxiproxyServer

PREFIX = "PERAGO_TEST_"


def prefix_of(name: str) -> str:
    """Return the start of the variables of the server `name`: lakefs-s3 has LAKEFS_S3."""
    return PREFIX + name.upper().replace("-", "_")


def variables(
    name: str, server: LakefsServer | ConductorServer | ToxiproxyServer
) -> dict[str, str]:
    """Return the variables with which another process reaches `server`."""
    prefix = prefix_of(name)
    found = {f"{prefix}_ENDPOINT": server.endpoint}
    if isinstance(server, LakefsServer):
        found[f"{prefix}_ACCESS_KEY_ID"] = server.access_key_id
        found[f"{prefix}_SECRET_ACCESS_KEY"] = server.secret_access_key
        found[f"{prefix}_NAMESPACE_ROOT"] = server.namespace_root
    return found


def given_lakefs(name: str) -> LakefsServer | None:
    """Return the lakeFS that the environment names."""
    prefix = prefix_of(name)
    if not (endpoint := os.environ.get(f"{prefix}_ENDPOINT")):
        return None
    return LakefsServer(
        endpoint=endpoint,
        access_key_id=os.environ[f"{prefix}_ACCESS_KEY_ID"],
        secret_access_key=os.environ[f"{prefix}_SECRET_ACCESS_KEY"],
        namespace_root=os.environ[f"{prefix}_NAMESPACE_ROOT"],
    )


def given_conductor(name: str) -> ConductorServer | None:
    """Return the Conductor that the environment names."""
    endpoint = os.environ.get(f"{prefix_of(name)}_ENDPOINT")
    return ConductorServer(endpoint=endpoint) if endpoint else None


def given_toxiproxy(name: str) -> ToxiproxyServer | None:
    """Return the toxiproxy that the environment names."""
    endpoint = os.environ.get(f"{prefix_of(name)}_ENDPOINT")
    return ToxiproxyServer(endpoint=endpoint) if endpoint else None
