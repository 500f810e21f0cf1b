"""Options of Spark and Hadoop as values: what every session gets, what one repository adds.

Keys of lakeFS stand under names that Spark redacts wherever it shows options. Sets nothing.
"""

from collections.abc import Mapping
from urllib.parse import urlsplit

from perago.ports.spark_workspace import SparkGateway

COMMIT_PROTOCOL = "org.perago.spark.PrivateBranchCommitProtocol"
# Spark's own default, and what holds anything that opens lakeFS.
REDACTED = r"(?i)secret|password|token|access[.]?key"

SESSION_OPTIONS: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.redaction.regex": REDACTED,
    "spark.sql.redaction.options.regex": f"(?i)url|{REDACTED.removeprefix('(?i)')}",
    # Losers of a speculation are harmless, but a path that is read back in the same body could
    # show one for a moment.
    "spark.speculation": "false",
    "spark.sql.session.timeZone": "UTC",
    # Over TCP the last word of every Python task waits 40 ms for an acknowledgement.
    "spark.python.unix.domain.socket.enabled": "true",
}


def session_options(
    given: Mapping[str, str], *, jars: str, has_commit_protocol: bool
) -> dict[str, str]:
    """Everything a session is started with; what the operator gave wins."""
    options = dict(SESSION_OPTIONS)
    if has_commit_protocol:
        options["spark.sql.sources.commitProtocolClass"] = COMMIT_PROTOCOL
    else:
        options["spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version"] = "2"
    options |= given
    if jars:
        options["spark.jars"] = ",".join(filter(None, (jars, given.get("spark.jars", ""))))
    return options


def repository_options(repository: str, gateway: SparkGateway) -> dict[str, str]:
    """Hadoop options of one repository: it is a bucket of the gateway.

    The flags take away the questions that S3A asks before it writes a file: nobody else writes
    on the branch.
    """
    address = urlsplit(gateway.endpoint)
    options = {
        "endpoint": f"{address.scheme}://{address.netloc}",
        "endpoint.region": "us-east-1",
        "path.style.access": "true",
        "connection.ssl.enabled": str(address.scheme == "https").lower(),
        "aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
        "access.key": gateway.access_key_id,
        "secret.key": gateway.secret_access_key,
        "connection.expect.continue": "false",
        "create.performance": "true",
        "performance.flags": "create,mkdir,delete",
        "bucket.probe": "0",
        "change.detection.mode": "none",
    }
    return {f"fs.s3a.bucket.{repository}.{name}": value for name, value in options.items()}


def is_secret_option(name: str) -> bool:
    """Whether an option holds a key."""
    return name.endswith((".secret.key", ".access.key"))
