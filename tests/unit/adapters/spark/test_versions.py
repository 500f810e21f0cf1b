"""Which installations fit together, and what is said of those that do not."""

import pytest

from perago.adapters.spark.jars import SparkFacts, check_versions, facts_of
from perago.domain.errors import SparkEnvironmentError

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
