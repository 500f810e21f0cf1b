"""Real lakeFS, Conductor and toxiproxy for tests: fetched once per user, started per run.

The standard library is enough to run this package, so that it can fetch and build while the
virtual environment of the repository is still being installed. It knows nothing of `perago`.
"""

from tools.servers.conductor import ConductorServer, conductor_server
from tools.servers.errors import FetchError, ServerError
from tools.servers.lakefs import LakefsServer, lakefs_server
from tools.servers.toxiproxy import Proxy, ToxiproxyServer, toxiproxy_server

__all__ = [
    "ConductorServer",
    "FetchError",
    "LakefsServer",
    "Proxy",
    "ServerError",
    "ToxiproxyServer",
    "conductor_server",
    "lakefs_server",
    "toxiproxy_server",
]
