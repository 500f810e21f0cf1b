"""`make matrix`: the Spark tests on every pyspark that is promised, each with its own Hadoop.

Each pyspark lies in a directory of the user's cache, put before the virtual environment's own: a
second copy of everything else would say nothing more. The table goes into docs/spark.md.
"""

import argparse
import os
import subprocess
import sys
import sysconfig
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version as installed
from pathlib import Path

from perago_servers import ConductorServer, LakefsServer, conductor_server, lakefs_server
from perago_servers.cache import build_log, make_once, run_logged
from perago_servers.versions import PYSPARK

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "spark.md"
BEGIN, END = "<!-- written by make matrix -->\n", "<!-- end of the matrix -->\n"
VERSIONS = ("4.0.5", "4.1.4", PYSPARK)
TASKS = "tests/integration/test_spark_tasks.py::test_a_"
SMOKE = (
    "tests/contract/test_spark_workspace.py",
    "tests/contract/test_spark_pipeline.py",
    f"{TASKS}spark_task_publishes_and_a_local_task_reads_it",
    f"{TASKS}task_that_fails_while_it_writes_is_tried_again_by_spark",
)
# One master, but for what needs executors; of the pipeline the laws that take every step.
CHOSEN = "(s3a or settled or P9 or P13) and not cluster or again"
FACTS = """
from perago.adapters.spark.jars import read_facts
from perago.adapters.spark.jars import fetch_jars
facts, jars = read_facts(), fetch_jars()
size = sum(jar.stat().st_size for jar in jars) / 1e6
print(facts.pyspark, facts.hadoop, facts.scala, facts.java, f"{size:.0f}", sep="|")
"""


@dataclass(frozen=True, slots=True)
class Smoke:
    """What one pyspark is made of, and how the tests ended with it."""

    facts: Sequence[str]
    passed: int
    failed: int
    seconds: float


def pyspark_place(version: str) -> Path:
    """Return a directory with this pyspark and its py4j alone, made on first use.

    The one of the virtual environment is where it is.
    """
    if version == installed("pyspark"):
        return Path(sysconfig.get_path("purelib"))
    key = f"pyspark-{version}"

    def install(directory: Path) -> None:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(directory)]
        run_logged([*pip, f"pyspark=={version}"], what=key, log=build_log(key))

    return make_once(key, install)


def smoke(version: str, servers: dict[str, str]) -> Smoke:
    """Run the tests with one pyspark; its jars are fetched by perago's own command path."""
    place = pyspark_place(version)
    environment = {**os.environ, **servers, "PYTHONPATH": str(place)}
    environment.pop("SPARK_HOME", None)
    told = subprocess.run(
        [sys.executable, "-c", FACTS],
        cwd=ROOT,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="perago-matrix-") as scratch:
        report = Path(scratch) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", *SMOKE]
        command += ["-m", "spark or lakefs", "-k", CHOSEN, f"--junitxml={report}"]
        command += ["-W", "ignore::ResourceWarning"]  # pyspark 4.0 leaves sockets to the collector
        command += ["-W", "ignore::pytest.PytestUnraisableExceptionWarning"]
        subprocess.run(command, cwd=ROOT, env=environment, check=False)
        suite = next(ET.parse(report).getroot().iter("testsuite")).attrib  # noqa: S314 - ours
    failed = int(suite["failures"]) + int(suite["errors"])
    passed = int(suite["tests"]) - failed - int(suite["skipped"])
    facts = told.stdout.strip().splitlines()[-1].split("|")
    return Smoke(facts, passed, failed, time.monotonic() - began)


def table(smokes: Sequence[Smoke]) -> str:
    """Render the result for people."""
    lines = ["| pyspark | Hadoop and hadoop-aws | Scala | Java | jars | tests |", "|---" * 6 + "|"]
    for each in smokes:
        pyspark, hadoop, scala, java, size = each.facts
        ended = f"{each.passed} passed" + (f", {each.failed} failed" if each.failed else "")
        lines.append(f"| {pyspark} | {hadoop} | {scala} | {java} | {size} MB | {ended} |")
    return "\n".join(lines) + "\n"


def write_page(text: str) -> None:
    """Put the table between its marks."""
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")


def main() -> int:
    """Run every version; the exit code counts failures."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("versions", nargs="*", default=VERSIONS)
    versions: Sequence[str] = arguments.parse_args().versions
    with lakefs_server() as lakefs, conductor_server() as conductor:
        servers = _names(lakefs, conductor)
        smokes = [smoke(version, servers) for version in versions]
    text = table(smokes)
    print(text)
    if tuple(versions) == VERSIONS:
        write_page(text)
    return sum(each.failed for each in smokes)


def _names(lakefs: LakefsServer, conductor: ConductorServer) -> dict[str, str]:
    return lakefs.variables("lakefs") | conductor.variables("conductor")


if __name__ == "__main__":
    sys.exit(main())
