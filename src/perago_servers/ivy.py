"""Java libraries by their coordinates, through the Ivy that pyspark ships, and those for Spark.

Decides how they are resolved. Ivy's own default repository is the only one: no address is
written down here, and Maven is not needed.
"""

import importlib.util
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from perago_servers import versions
from perago_servers.cache import FetchError, build_log, make_once, run_logged
from perago_servers.java import any_java, source_of_trust, trust_options

AWS = "software.amazon.awssdk"
SPARK_JARS_KEY = f"spark-jars-{versions.PYSPARK}-{versions.AWS_SDK}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """One artifact by coordinates."""

    group: str
    name: str
    version: str
    classifier: str = ""
    is_alone: bool = False

    def as_dependency(self) -> str:
        """Return the element of an ivy.xml; `conf` keeps sources and javadoc away."""
        artifact = ""
        if self.classifier:
            artifact = (
                f'<artifact name={quoteattr(self.name)} type="jar" ext="jar" '
                f"m:classifier={quoteattr(self.classifier)}/>"
            )
        configuration = "master" if self.is_alone else "default"
        return (
            f"<dependency org={quoteattr(self.group)} name={quoteattr(self.name)} "
            f'rev={quoteattr(self.version)} conf="default->{configuration}" '
            f'transitive="{str(not self.is_alone).lower()}">{artifact}</dependency>'
        )


def retrieve(libraries: Iterable[Library], directory: Path, *, log: Path) -> None:
    """Put the jars of `libraries`, and of what they need, into `directory`."""
    lines = [
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">',
        '<info organisation="perago" module="retrieved"/>',
        '<configurations><conf name="default"/></configurations>',
        "<dependencies>",
        *(library.as_dependency() for library in libraries),
        # hadoop-aws asks for the AWS bundle of 686 MB; three modules of the same SDK do.
        f'<exclude org="{AWS}" module="bundle"/>',
        "</dependencies>",
        "</ivy-module>",
    ]
    # Ivy's cache would keep a second copy of every jar in the home directory.
    with tempfile.TemporaryDirectory(prefix="perago-ivy-") as scratch:
        module = Path(scratch) / "ivy.xml"
        module.write_text("\n".join(lines), encoding="utf-8")
        pattern = f"{directory}/[artifact]-[revision](-[classifier]).[ext]"
        java = any_java()
        trust = trust_options(source_of_trust(os.environ), Path(scratch)) if java.is_fetched else []
        run_logged(
            [
                *(java.program, *trust, "-jar", str(_ivy_jar()), "-ivy", str(module)),
                *("-cache", f"{scratch}/cache", "-retrieve", pattern),
            ],
            what=", ".join(f"{library.group}:{library.name}" for library in libraries),
            log=log,
        )


def spark_jars() -> Path:
    """Return the directory of the small set with which Spark reads and writes s3a paths (19 MB)."""
    return make_once(SPARK_JARS_KEY, _retrieve_spark_jars)


def _retrieve_spark_jars(directory: Path) -> None:
    modules = ("s3", "s3-transfer-manager", "sts")
    retrieve(
        [
            Library(group="org.apache.hadoop", name="hadoop-aws", version=versions.HADOOP),
            Library(
                group="org.apache.spark",
                name="spark-hadoop-cloud_2.13",
                version=versions.SPARK_CLOUD,
                is_alone=True,
            ),
            *(Library(group=AWS, name=name, version=versions.AWS_SDK) for name in modules),
        ],
        directory,
        log=build_log(SPARK_JARS_KEY),
    )


def _ivy_jar() -> Path:
    """Return Ivy: from an installed pyspark, else out of pyspark's source archive."""
    found = make_once(f"ivy-of-pyspark-{versions.PYSPARK}", _copy_ivy)
    return next(found.glob("ivy-*.jar"))


def _copy_ivy(directory: Path) -> None:
    installed = importlib.util.find_spec("pyspark")
    for place in [] if installed is None else installed.submodule_search_locations or []:
        for jar in (Path(place) / "jars").glob("ivy-*.jar"):
            (directory / jar.name).write_bytes(jar.read_bytes())
            return
    with tempfile.TemporaryDirectory(prefix="perago-pyspark-") as scratch:
        _unpack_ivy(_downloaded_pyspark(Path(scratch)), directory)


def _downloaded_pyspark(scratch: Path) -> Path:
    """Download through pip, whose own cache keeps the archive for the later install."""
    wanted = f"pyspark=={versions.PYSPARK}"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest"]
    done = subprocess.run(
        [*command, str(scratch), wanted], capture_output=True, text=True, check=False
    )
    archives = list(scratch.glob("pyspark-*"))
    if done.returncode != 0 or not archives:
        raise FetchError(
            wanted,
            found=done.stderr.strip() or "no archive",
            remedy="check that pip of this Python can reach its package index",
        )
    return archives[0]


def _unpack_ivy(archive: Path, directory: Path) -> None:
    with tarfile.open(archive) as content:
        for member in content:
            name = Path(member.name).name
            source = content.extractfile(member) if name.startswith("ivy-") else None
            if source is not None and name.endswith(".jar"):
                (directory / name).write_bytes(source.read())
                return
    raise FetchError("Ivy", found=f"none in {archive.name}", remedy="pin another pyspark")
