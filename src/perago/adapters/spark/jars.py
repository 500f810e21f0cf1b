"""The jars with which Spark opens s3a paths: by coordinates, through the Ivy of pyspark, cached.

hadoop-aws asks for the AWS bundle of 686 MB; three modules of the same SDK do. The commit
protocol is compiled by the Janino that Spark ships. No address is written down here.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from xml.sax.saxutils import quoteattr

from perago.adapters.spark.compile_protocol import SOURCE, compile_protocol
from perago.adapters.spark.installation import java_program, pyspark_jars, read_facts
from perago.adapters.spark.versions import AWS_SDK
from perago.domain.spark_errors import SparkEnvironmentError

AWS = "software.amazon.awssdk"
PROTOCOL_JAR = "perago-commit-protocol.jar"


def found_jars(cache: Path | None = None) -> list[Path]:
    """The jars that are there; empty before `perago spark jars`."""
    return sorted([*_libraries(cache).glob("*.jar"), *_protocol(cache).glob("*.jar")])


def fetch_jars(cache: Path | None = None, *, settings: Path | None = None) -> list[Path]:
    """Resolve once and compile once; each directory appears complete or not at all.

    A new version of the commit protocol needs no network.
    """
    _make_once(_libraries(cache), lambda made: _retrieve(made, settings))
    _make_once(_protocol(cache), lambda made: compile_protocol(made / PROTOCOL_JAR))
    return found_jars(cache)


def _libraries(cache: Path | None) -> Path:
    return _root(cache) / f"libraries-{read_facts().pyspark}-{AWS_SDK}"


def _protocol(cache: Path | None) -> Path:
    fingerprint = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:8]
    return _root(cache) / f"protocol-{read_facts().pyspark}-{fingerprint}"


def _root(cache: Path | None) -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return cache or Path(base) / "perago" / "spark"


def _make_once(directory: Path, make: Callable[[Path], None]) -> None:
    if directory.exists():
        return
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix=".making-") as scratch:
        made = Path(scratch) / "made"
        made.mkdir()
        make(made)
        try:
            made.rename(directory)
        except OSError:
            if not directory.exists():  # another process was first
                raise


def _retrieve(directory: Path, settings: Path | None) -> None:
    scratch = directory.parent
    java = java_program()
    ivy = next(pyspark_jars().glob("ivy-*.jar"), None)
    if java is None or ivy is None:
        raise SparkEnvironmentError(
            expected="a Java and the Ivy of pyspark",
            found="no Java" if java is None else "no ivy jar",
            remedy="install a JDK and set JAVA_HOME",
        )
    module = scratch / "ivy.xml"
    module.write_text(_ivy_module(), encoding="utf-8")
    pattern = f"{directory}/[artifact]-[revision].[ext]"
    command = [java, "-jar", str(ivy), "-ivy", str(module), "-cache", str(scratch / "ivy")]
    command += ["-retrieve", pattern]
    if settings is not None:
        command += ["-settings", str(settings)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode != 0 or not any(directory.glob("hadoop-aws-*.jar")):
        said = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
        raise SparkEnvironmentError(
            expected="jars from the repository that Ivy is set up for",
            found=said or "nothing",
            remedy="check the network, or give `--ivy-settings FILE` for a mirror",
        )
    shutil.rmtree(scratch / "ivy", ignore_errors=True)


def _ivy_module() -> str:
    hadoop = read_facts().hadoop
    wanted = [("org.apache.hadoop", "hadoop-aws", hadoop)]
    wanted += [(AWS, name, AWS_SDK) for name in ("s3", "s3-transfer-manager", "sts")]
    return "\n".join(_ivy_lines(wanted))


def _ivy_lines(wanted: Iterable[tuple[str, str, str]]) -> Iterable[str]:
    yield '<ivy-module version="2.0">'
    yield '<info organisation="perago" module="spark"/>'
    yield '<configurations><conf name="default"/></configurations><dependencies>'
    for group, name, revision in wanted:
        yield (
            f"<dependency org={quoteattr(group)} name={quoteattr(name)} "
            f'rev={quoteattr(revision)} conf="default->default"/>'
        )
    yield f'<exclude org={quoteattr(AWS)} module="bundle"/></dependencies></ivy-module>'
