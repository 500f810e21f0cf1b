"""The Conductor server, unpacked: it starts in a third of the time of the boot jar.

Decides what of it is cached. Must not know how it is started.
"""

import shutil
from pathlib import Path

from perago_servers import versions
from perago_servers.cache import build_log, make_once, run_logged
from perago_servers.ivy import Library, retrieve
from perago_servers.java_runtime import conductor_java

KEY = f"conductor-{versions.CONDUCTOR}"
JAR_NAME = f"conductor-server-{versions.CONDUCTOR}-boot.jar"


def conductor_jar() -> Path:
    """Return the launcher jar beside its unpacked libraries."""
    return make_once(KEY, _unpack) / "app" / JAR_NAME


def _unpack(directory: Path) -> None:
    boot = Library(
        group="org.conductoross",
        name="conductor-server",
        version=versions.CONDUCTOR,
        classifier="boot",
        is_alone=True,
    )
    log = build_log(KEY)
    download = directory / "download"
    retrieve([boot], download, log=log)
    run_logged(
        [
            *(conductor_java().program, "-Djarmode=tools", "-jar", str(download / JAR_NAME)),
            *("extract", "--destination", str(directory / "app")),
        ],
        what="the unpacked Conductor",
        log=log,
    )
    shutil.rmtree(download)
