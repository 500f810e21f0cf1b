"""Codes of Spark tasks: the session, its jars, what bodies may write."""

from perago.domain.error_codes.row import ErrorCode

SPARK_CODES = (
    ErrorCode(
        "PRG-K001",
        "pyspark, Hadoop, Scala, Java or the jars on this machine do not fit together.",
        "Install perago[spark] and a JDK as the message says, then run perago spark jars.",
        "Versions are read before a JVM is started: hadoop-aws must be of the very version that"
        " pyspark bundles, Scala jars of its Scala, and Spark 4 needs Java 17 or newer.",
    ),
    ErrorCode(
        "PRG-K002",
        "No Spark session could be started.",
        "Check PERAGO_SPARK_MASTER and that its master answers; the message has Spark's reason.",
        "The session is started by the first Spark body of an executor and reused after it.",
    ),
    ErrorCode(
        "PRG-K003",
        "A Spark body changed objects outside the prefix of its workspace.",
        "Write to workspace.output(path) only, or declare the prefix that is really written.",
        "The objects are named. They are on the staging branch of the attempt, which goes away;"
        " nothing was published.",
    ),
    ErrorCode(
        "PRG-K004",
        "A read-only Spark task asked for an output.",
        "Remove read_only=True from WorkspaceSpec, or do not write.",
        "A read-only attempt has no staging branch and gets the input commit alone.",
    ),
    ErrorCode(
        "PRG-K005",
        "A Spark body returned while a streaming query was still running.",
        "Use trigger(availableNow=True) and awaitTermination() before returning.",
        "The queries were stopped and nothing was published: what they would have written later"
        " could not be part of the commit.",
    ),
    ErrorCode(
        "PRG-K006",
        "A path of a Spark workspace is not a path inside it.",
        "Pass paths relative to the prefix, like daily/2026; Spark itself opens URIs.",
        "Absolute paths, .. segments, backslashes and URIs with a scheme are refused.",
    ),
    ErrorCode(
        "PRG-K007",
        "A staging branch was still written to after its Spark body had ended.",
        "Look for jobs that outlive the body, with the name of the branch; Conductor retries.",
        "What was committed is compared with what was checked, and what lost executors write late"
        " is removed. Five times in a row something new was there.",
    ),
)
