"""Whether a Spark master can be reached, asked before a JVM is started.

Spark itself takes a minute to give up on a standalone master, and then ends the session under the
body that uses it.
"""

import re
import socket

from perago.domain.spark_errors import SparkSessionError

CONNECT_SECONDS = 5.0
_STANDALONE = re.compile(r"spark://(?P<places>.+)")


def check_master(master: str) -> None:
    """Raise SparkSessionError when no host of a standalone master answers."""
    found = _STANDALONE.fullmatch(master)
    if found is None:
        return
    reasons: list[str] = []
    for place in found["places"].split(","):
        host, _, port = place.rpartition(":")
        try:
            with socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS):
                return
        except (OSError, ValueError) as error:
            reasons.append(f"{place}: {error}")
    raise SparkSessionError(master, "; ".join(reasons))
