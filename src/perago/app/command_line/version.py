"""`perago version`: the version, and with `--json` what it runs on.

Asks installed packages for their versions; imports none of them.
"""

import platform
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version

from perago._version import __version__
from perago.app.command_line.reporting import JsonOption, reports_errors, say, say_json

_PACKAGES = ("aiohttp", "lakefs-sdk", "pydantic", "pyspark", "opentelemetry-sdk")


@reports_errors
def version(*, as_json: JsonOption = False) -> None:
    """Print the version."""
    if not as_json:
        say(__version__)
        return
    say_json(
        "version/1",
        {
            "version": __version__,
            "python": platform.python_version(),
            "platform": platform.platform(),
            "packages": {name: _version_of(name) for name in _PACKAGES},
        },
    )


def _version_of(package: str) -> str | None:
    try:
        return installed_version(package)
    except PackageNotFoundError:
        return None
