"""Which installations fit together; options of sessions and repositories, and what is redacted."""

import re

import pytest

from perago.adapters.spark.jars import (
    COMMIT_PROTOCOL,
    REDACTED,
    SparkFacts,
    check_versions,
    facts_of,
    repository_options,
    session_options,
)
from perago.domain.errors import SparkEnvironmentError
from perago.ports.workspace import SparkGateway

BUNDLED = ["hadoop-client-api-3.5.0.jar", "scala-library-2.13.18.jar", "spark-core_2.13-4.3.0.jar"]
FACTS = SparkFacts(pyspark="4.3.0", hadoop="3.5.0", scala="2.13", java=17)
JARS = ["hadoop-aws-3.5.0.jar", "s3-2.35.4.jar", "perago-commit-protocol.jar"]


def test_versions_are_read_off_the_names_of_jars() -> None:
    assert facts_of("4.3.0", BUNDLED, 17) == FACTS


@pytest.mark.parametrize("java", [17, 21, 25])
def test_what_fits_is_silent(java: int) -> None:
    check_versions(SparkFacts("4.3.0", "3.5.0", "2.13", java), JARS, needs_s3a=True)
    check_versions(SparkFacts("4.3.0", "3.5.0", "2.13", java), [], needs_s3a=False)


@pytest.mark.parametrize(
    ("facts", "jars", "text"),
    [
        (SparkFacts("3.5.9", "3.3.4", "2.12", 17), JARS, "pyspark 4.0 .* found pyspark 3.5.9"),
        (SparkFacts("4.3.0", "3.5.0", "2.13", None), JARS, "found no Java"),
        (SparkFacts("4.3.0", "3.5.0", "2.13", 11), JARS, "expected Java 17 .* found Java 11"),
        (FACTS, [], "found no hadoop-aws; run `perago spark jars`"),
        (FACTS, ["hadoop-aws-3.4.1.jar"], "hadoop-aws 3.5.0, .* found hadoop-aws 3.4.1"),
        (FACTS, [*JARS, "hadoop-aws-3.4.1.jar"], "found hadoop-aws 3.4.1; take it off spark.jars"),
        (FACTS, [*JARS, "delta-spark_2.12-4.0.0.jar"], "Scala 2.13, .*delta-spark_2.12-4.0.0"),
    ],
    ids=["Spark 3", "no Java", "old Java", "no jars", "other Hadoop", "two Hadoops", "other Scala"],
)
def test_what_does_not_fit_is_one_clear_error(
    facts: SparkFacts, jars: list[str], text: str
) -> None:
    with pytest.raises(SparkEnvironmentError, match=text):
        check_versions(facts, jars, needs_s3a=True)


GATEWAY = SparkGateway("https://lake.example.com/", "the-id", "the-secret")


def test_every_option_of_a_repository_is_of_its_bucket() -> None:
    options = repository_options("repo", GATEWAY)
    assert all(name.startswith("fs.s3a.bucket.repo.") for name in options)
    assert options["fs.s3a.bucket.repo.endpoint"] == "https://lake.example.com"
    assert options["fs.s3a.bucket.repo.connection.ssl.enabled"] == "true"
    plain = repository_options("repo", SparkGateway("http://127.0.0.1:1", "", ""))
    assert plain["fs.s3a.bucket.repo.connection.ssl.enabled"] == "false"


def test_an_option_that_holds_a_key_is_redacted_by_its_name() -> None:
    options = repository_options("repo", GATEWAY)
    holders = [name for name, value in options.items() if value in {"the-id", "the-secret"}]
    assert len(holders) == 2
    for name in holders:
        assert name.endswith((".secret.key", ".access.key"))
        assert re.search(REDACTED, name)
        assert re.search(
            session_options({}, jars="", has_commit_protocol=True)[
                "spark.sql.redaction.options.regex"
            ],
            name,
        )


def test_the_gateway_does_not_print_its_secret() -> None:
    assert "the-secret" not in repr(GATEWAY)


def test_what_the_operator_gives_wins() -> None:
    options = session_options({"spark.ui.enabled": "true"}, jars="", has_commit_protocol=True)
    assert options["spark.ui.enabled"] == "true"
    assert options["spark.sql.sources.commitProtocolClass"] == COMMIT_PROTOCOL


def test_jars_of_both_are_taken() -> None:
    given = {"spark.jars": "/delta.jar"}
    options = session_options(given, jars="/a.jar,/b.jar", has_commit_protocol=True)
    assert options["spark.jars"] == "/a.jar,/b.jar,/delta.jar"


def test_without_our_jar_the_second_version_of_sparks_own_is_taken() -> None:
    options = session_options({}, jars="", has_commit_protocol=False)
    assert "spark.sql.sources.commitProtocolClass" not in options
    assert options["spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version"] == "2"
