"""What fits together: pyspark, the Hadoop and Scala it bundles, Java, and the jars beside it.

Compares texts that others found; starts nothing and reads no disk.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from perago.domain.spark_errors import SparkEnvironmentError

JAVA_MINIMUM = 17
PYSPARK_MINIMUM = 4  # the commit protocol is compiled for the Scala 2.13 of Spark 4
AWS_SDK = "2.35.4"
_JAR = re.compile(r"(?P<name>.+?)-(?P<version>\d[\w.]*)\.jar")
_SCALA_JAR = re.compile(r".+_(?P<scala>2\.\d+)-\d.*\.jar")


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
