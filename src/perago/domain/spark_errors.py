"""What went wrong around the body of a Spark task, each with its code and its facts.

Raised by the steps of an attempt and by the Spark adapter; knows no pyspark.
"""

from collections.abc import Sequence

from perago.domain.errors import PeragoError

PATHS_NAMED_MAX = 5


class SparkEnvironmentError(PeragoError, RuntimeError):
    """The Spark installation cannot work as it is."""

    code = "PRG-K001"

    def __init__(self, *, expected: str, found: str, remedy: str) -> None:
        super().__init__(f"Spark: expected {expected}, found {found}; {remedy}")
        self.expected = expected
        self.found = found
        self.remedy = remedy


class SparkSessionError(PeragoError, RuntimeError):
    """Spark did not give a session."""

    code = "PRG-K002"

    def __init__(self, master: str, reason: str) -> None:
        super().__init__(
            f"Spark master {master} gave no session: {reason}; check PERAGO_SPARK_MASTER"
        )
        self.master = master


class OutsidePrefixError(PeragoError, RuntimeError):
    """A Spark body wrote where it must not."""

    code = "PRG-K003"

    def __init__(self, prefix: str, paths: Sequence[str]) -> None:
        names = ", ".join(paths[:PATHS_NAMED_MAX])
        more = ", ..." if len(paths) > PATHS_NAMED_MAX else ""
        super().__init__(
            f"the body changed objects outside prefix {prefix}: {names}{more}; nothing was "
            "published; write to workspace.output(path)"
        )
        self.prefix = prefix
        self.paths = tuple(paths)


class ReadOnlyWorkspaceError(PeragoError, RuntimeError):
    """A read-only Spark task has nowhere to write."""

    code = "PRG-K004"

    def __init__(self, path: str) -> None:
        super().__init__(f"the workspace is read-only, {path} cannot be written")
        self.path = path


class OpenStreamError(PeragoError, RuntimeError):
    """A streaming query outlived its body."""

    code = "PRG-K005"

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(
            f"the body left streaming queries running: {', '.join(names)}; they were stopped, "
            "nothing was published; use trigger(availableNow=True) and awaitTermination()"
        )
        self.names = tuple(names)


class SparkPathError(PeragoError, ValueError):
    """A path of a Spark workspace leads out of it."""

    code = "PRG-K006"

    def __init__(self, path: str) -> None:
        super().__init__(f"expected a path relative to the prefix, found {path!r}")
        self.path = path
