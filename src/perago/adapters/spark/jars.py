"""Java, jars and options of Spark: what has to fit together, and how it is fetched and compiled.

`check_versions` compares pyspark, the Hadoop and Scala it bundles, Java, and the jars beside it.
`session_options` and `repository_options` are what a session is started with. `fetch_jars` resolves
jars with the Ivy that pyspark ships, and compiles the commit protocol.
"""

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from xml.sax.saxutils import quoteattr

from perago.domain.errors import SparkEnvironmentError
from perago.ports.workspace import SparkGateway

JAVA_MINIMUM = 17  # what Spark 4 is compiled for
PYSPARK_MINIMUM = 4  # the commit protocol is compiled for the Scala 2.13 of Spark 4
# hadoop-aws asks for the whole SDK, one jar of 686 MB. Three modules of this version are enough for
# S3A of Hadoop 3.5.0 and have 19 MB in all.
AWS_SDK = "2.35.4"
AWS = "software.amazon.awssdk"
HOME = "SPARK_HOME"
SOURCE = Path(__file__).parent / "java" / "PrivateBranchCommitProtocol.java"
PROTOCOL_JAR = "perago-commit-protocol.jar"
COMMIT_PROTOCOL = "org.perago.spark.PrivateBranchCommitProtocol"
# Spark's own default, and what holds anything that opens lakeFS.
REDACTED = r"(?i)secret|password|token|access[.]?key"

SESSION_OPTIONS: Mapping[str, str] = {
    # The page listens on every address of the machine, and shows options and queries.
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.redaction.regex": REDACTED,
    "spark.sql.redaction.options.regex": f"(?i)url|{REDACTED.removeprefix('(?i)')}",
    # Losers of a speculation are harmless, but a path that is read back in the same body could
    # show one for a moment.
    "spark.speculation": "false",
    # Else the same task writes other timestamps on a machine of another zone.
    "spark.sql.session.timeZone": "UTC",
    # Over TCP the last word of every Python task waits 40 ms for an acknowledgement.
    "spark.python.unix.domain.socket.enabled": "true",
}
_JAR = re.compile(r"(?P<name>.+?)-(?P<version>\d[\w.]*)\.jar")
_SCALA_JAR = re.compile(r".+_(?P<scala>2\.\d+)-\d.*\.jar")
# Java 8 and older call themselves 1.8: the number behind the 1 is the one that is compared.
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_RELEASE = re.compile(r'^JAVA_VERSION="(?:1\.)?(\d+)', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class SparkFacts:
    """What an installation is made of."""

    pyspark: str
    hadoop: str
    scala: str
    java: int | None


def facts_of(pyspark: str, bundled: Iterable[str], java: int | None) -> SparkFacts:
    """Read the versions off the names of the jars that pyspark bundles."""
    found = dict(_named(name) for name in bundled)
    scala = ".".join(found.get("scala-library", "").split(".")[:2])
    return SparkFacts(pyspark, found.get("hadoop-client-api", ""), scala, java)


def check_versions(facts: SparkFacts, jars: Iterable[str], *, needs_s3a: bool) -> None:
    """Raise SparkEnvironmentError for the first thing that does not fit."""
    if int(facts.pyspark.partition(".")[0]) < PYSPARK_MINIMUM:
        raise SparkEnvironmentError(
            expected=f"pyspark {PYSPARK_MINIMUM}.0 or newer",
            found=f"pyspark {facts.pyspark}",
            remedy="install perago[spark]",
        )
    if facts.java is None or facts.java < JAVA_MINIMUM:
        raise SparkEnvironmentError(
            expected=f"Java {JAVA_MINIMUM} or newer for pyspark {facts.pyspark}",
            found="no Java" if facts.java is None else f"Java {facts.java}",
            remedy="install a JDK and set JAVA_HOME",
        )
    names = list(jars)
    if needs_s3a:
        _check_hadoop(facts, names)
    for name in names:
        scala = _SCALA_JAR.fullmatch(name)
        if scala is not None and scala["scala"] != facts.scala:
            raise SparkEnvironmentError(
                expected=f"jars for Scala {facts.scala}, as pyspark {facts.pyspark} has it",
                found=name,
                remedy="remove it, or take the one for this Scala",
            )


def _check_hadoop(facts: SparkFacts, jars: Iterable[str]) -> None:
    """One hadoop-aws, and the right one: beside another the class path decides."""
    found = {version for name, version in map(_named, jars) if name == "hadoop-aws"}
    if found == {facts.hadoop}:
        return
    raise SparkEnvironmentError(
        expected=f"hadoop-aws {facts.hadoop}, the Hadoop of pyspark {facts.pyspark}",
        found=" and ".join(f"hadoop-aws {version}" for version in sorted(found - {facts.hadoop}))
        or "no hadoop-aws",
        remedy="take it off spark.jars" if facts.hadoop in found else "run `perago spark jars`",
    )


def _named(jar: str) -> tuple[str, str]:
    found = _JAR.fullmatch(jar)
    return (jar, "") if found is None else (found["name"], found["version"])


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
    folders = [] if spec is None else spec.submodule_search_locations or []
    for folder in [home, *folders] if home else folders:
        jars = Path(folder) / "jars"
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
    if release.exists():  # reading it is quick; `java -version` starts a whole JVM
        found = _RELEASE.search(release.read_text(encoding="utf-8", errors="replace"))
        if found:
            return int(found[1])
    answer = subprocess.run(  # noqa: S603 - the user's own Java
        [program, "-version"], capture_output=True, text=True, check=False
    )
    found = _VERSION.search(answer.stderr)
    return int(found[1]) if found else None


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

    The flags take away the questions that S3A asks before it writes a file: no other client
    writes on the branch.
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


def named_jars(options: Mapping[str, str]) -> set[str]:
    """The names of the jars that an operator adds."""
    return {path.rpartition("/")[2] for path in options.get("spark.jars", "").split(",")} - {""}


def compile_protocol(target: Path) -> None:
    """Write the jar with the classes of the one source file."""
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415 - half a second

    gateway: Any = launch_gateway()
    try:
        compiler: Any = gateway.jvm.org.codehaus.janino.SimpleCompiler()
        loader = gateway.jvm.java.lang.Thread.currentThread().getContextClassLoader()
        compiler.setParentClassLoader(loader)
        compiler.cook(SOURCE.read_text(encoding="utf-8"))
        classes = {str(name): bytes(code) for name, code in dict(compiler.getBytecodes()).items()}
    finally:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()
    with zipfile.ZipFile(target, "w") as jar:
        for name, code in sorted(classes.items()):
            jar.writestr(name.replace(".", "/") + ".class", code)


def found_jars() -> list[Path]:
    """The jars that are there; empty before `perago spark jars`."""
    return sorted([*_libraries().glob("*.jar"), *_protocol().glob("*.jar")])


def fetch_jars(*, settings: Path | None = None) -> list[Path]:
    """Resolve once and compile once; each directory appears complete or not at all.

    A new version of the commit protocol needs no network.
    """
    _make_once(_libraries(), lambda made: _retrieve(made, settings))
    _make_once(_protocol(), lambda made: compile_protocol(made / PROTOCOL_JAR))
    return found_jars()


def _libraries() -> Path:
    return _root() / f"libraries-{read_facts().pyspark}-{AWS_SDK}"


def _protocol() -> Path:
    fingerprint = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:8]
    return _root() / f"protocol-{read_facts().pyspark}-{fingerprint}"


def _root() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "perago" / "spark"


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
    # Without hadoop-aws, whatever Ivy says, the first task that opens an s3a address would fail.
    if done.returncode != 0 or not any(directory.glob("hadoop-aws-*.jar")):
        said = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
        raise SparkEnvironmentError(
            expected="jars from the repository that Ivy is set up for",
            found=said or "nothing",
            remedy="check the network, or give `--ivy-settings FILE` for a mirror",
        )
    shutil.rmtree(scratch / "ivy", ignore_errors=True)


def _ivy_module() -> str:
    wanted = [("org.apache.hadoop", "hadoop-aws", read_facts().hadoop)]
    wanted += [(AWS, name, AWS_SDK) for name in ("s3", "s3-transfer-manager", "sts")]
    dependencies = [
        f"<dependency org={quoteattr(group)} name={quoteattr(name)} "
        f'rev={quoteattr(revision)} conf="default->default"/>'
        for group, name, revision in wanted
    ]
    return "\n".join(
        [
            '<ivy-module version="2.0">',
            '<info organisation="perago" module="spark"/>',
            '<configurations><conf name="default"/></configurations><dependencies>',
            *dependencies,
            f'<exclude org={quoteattr(AWS)} module="bundle"/></dependencies></ivy-module>',
        ]
    )
