"""Real lakeFS, Conductor and toxiproxy for tests: fetched once per user, started per run.

The standard library is enough to run this package, so that it can fetch and build while the
virtual environment of the repository is still being installed. It knows nothing of `perago`.
"""

from perago_servers.cache import FetchError
from perago_servers.conductor import ConductorServer, conductor_server
from perago_servers.lakefs import LakefsServer, S3Store, lakefs_server, s3_store
from perago_servers.process import ServerError, wait_until_one_ends
from perago_servers.toxiproxy import Proxy, ToxiproxyServer, toxiproxy_server

__all__ = [
    "ConductorServer",
    "FetchError",
    "LakefsServer",
    "Proxy",
    "S3Store",
    "ServerError",
    "ToxiproxyServer",
    "conductor_server",
    "lakefs_server",
    "s3_store",
    "toxiproxy_server",
    "wait_until_one_ends",
]
