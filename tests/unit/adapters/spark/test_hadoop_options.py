"""Options of sessions and repositories; whatever holds a key is what Spark redacts."""

import re

from perago.adapters.spark.jars import (
    COMMIT_PROTOCOL,
    REDACTED,
    repository_options,
    session_options,
)
from perago.ports.workspace import SparkGateway

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
