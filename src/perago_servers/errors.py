"""What can go wrong between a name and a running server; each error carries its facts."""

from pathlib import Path

LOG_LINES_SHOWN = 40  # a Java stack trace with its first cause


def last_lines(log: Path, lines: int = LOG_LINES_SHOWN) -> str:
    """Return the end of a log, or say that there is none."""
    if not log.exists():
        return f"(no log at {log})"
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])


class FetchError(Exception):
    """Something could not be fetched or built; `log` has all the output."""

    def __init__(self, what: str, *, found: str, remedy: str, log: Path | None = None) -> None:
        """Keep the facts and add the end of the log to the message."""
        self.what = what
        self.found = found
        self.remedy = remedy
        self.log = log
        shown = "" if log is None else f"\n--- last lines of {log}\n{last_lines(log)}"
        super().__init__(f"cannot provide {what}: {found}; {remedy}{shown}")


class ServerError(Exception):
    """A server did not come up; its directory and log are kept."""

    def __init__(self, name: str, *, found: str, log: Path) -> None:
        """Keep the facts and add the end of the log to the message."""
        self.name = name
        self.found = found
        self.log = log
        super().__init__(
            f"{name} did not become healthy: {found}; its directory is kept"
            f"\n--- last {LOG_LINES_SHOWN} lines of {log}\n{last_lines(log)}"
        )
