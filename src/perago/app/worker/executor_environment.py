"""The environment of an executor: everything but what opens lakeFS or Conductor.

A body that needs such a key gets it as a secret of its own, under a name of its own. Spark tasks
and thread mode are the stated exceptions. Starts nothing.
"""

from collections.abc import Collection, Iterator, Mapping
from urllib.parse import unquote

from perago.domain.secret_text import Secrets

CREDENTIAL_PREFIXES = (
    "CONDUCTOR_",
    "LAKECTL_",
    "LAKEFS_",
    "PERAGO_CONDUCTOR",
    "PERAGO_LAKEFS",
    "NOTIFY_SOCKET",
    "WATCHDOG_",
    "PYSPARK_GATEWAY_",  # the JVM of spark-submit is the parent's alone
)
SECRET_CHARACTERS_MIN = 8


def executor_environment(
    environment: Mapping[str, str], secrets: Collection[str] = ()
) -> dict[str, str]:
    """Leave out what is named like a credential, and whatever holds the text of one."""
    known = Secrets.of(each for each in secrets if len(each) >= SECRET_CHARACTERS_MIN)
    return {
        name: value
        for name, value in environment.items()
        if not name.startswith(CREDENTIAL_PREFIXES) and known.masked(value) == value
    }


def secrets_in(environment: Mapping[str, str]) -> Iterator[str]:
    """Values that are secret by their variable's name; of headers each value for itself as well."""
    for name, value in environment.items():
        if not value or name.endswith("_FILE"):  # a path is no secret
            continue
        if name.startswith(("CONDUCTOR_AUTH_", "LAKECTL_CREDENTIALS_")):
            yield value
        elif name.startswith("OTEL_EXPORTER_OTLP_") and "HEADERS" in name:
            yield value
            for header in value.split(","):
                sent = unquote(header.partition("=")[2].strip())
                # A token is told without its scheme, as in `Bearer ...`.
                yield from {sent, sent.rpartition(" ")[2]} - {""}
