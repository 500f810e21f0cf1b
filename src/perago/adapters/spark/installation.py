"""What is installed on this machine: pyspark with its jars, and a Java. Starts no Spark."""

import importlib.util
import os
import re
import shutil
import subprocess
from importlib.metadata import version
from pathlib import Path

from perago.adapters.spark.versions import SparkFacts, facts_of
from perago.domain.spark_errors import SparkEnvironmentError

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
HOME = "SPARK_HOME"
_RELEASE = re.compile(r'^JAVA_VERSION="(?:1\.)?(\d+)', re.MULTILINE)


def require_pyspark() -> None:
    """Refuse to go on where pyspark cannot be imported."""
    if importlib.util.find_spec("pyspark") is None:
        raise SparkEnvironmentError(
            expected="pyspark", found="none", remedy="pip install 'perago[spark]'"
        )


def pyspark_jars() -> Path:
    """The directory of jars that Spark starts with: of its home, or those that pyspark bundles.

    Under spark-submit pyspark itself is imported from an archive, which has none.
    """
    home = os.environ.get(HOME)
    spec = importlib.util.find_spec("pyspark")
    places = [] if spec is None else spec.submodule_search_locations or []
    for place in [home, *places] if home else places:
        jars = Path(place) / "jars"
        if jars.is_dir():
            return jars
    raise SparkEnvironmentError(
        expected="pyspark with its jars",
        found="none" if spec is None else "pyspark without jars",
        remedy="install perago[spark]",
    )


def read_facts() -> SparkFacts:
    """The versions that have to fit together."""
    bundled = [path.name for path in pyspark_jars().glob("*.jar")]
    return facts_of(version("pyspark"), bundled, java_version())


def java_program() -> str | None:
    """The Java that Spark will start."""
    home = os.environ.get("JAVA_HOME")
    if home:
        program = Path(home) / "bin" / "java"
        return str(program) if program.exists() else None
    return shutil.which("java")


def java_version() -> int | None:
    """Its major version, or None without a Java that runs."""
    program = java_program()
    if program is None:
        return None
    release = Path(program).resolve().parent.parent / "release"
    if release.exists():
        found = _RELEASE.search(release.read_text(encoding="utf-8", errors="replace"))
        if found:
            return int(found[1])
    answer = subprocess.run(  # noqa: S603 - the user's own Java
        [program, "-version"], capture_output=True, text=True, check=False
    )
    found = _VERSION.search(answer.stderr)
    return int(found[1]) if found else None
