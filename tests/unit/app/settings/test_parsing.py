"""Texts of settings: what each parser takes, and the text with which it refuses."""

from datetime import timedelta
from typing import Any

import pytest

from perago.app.settings import parsing
from perago.domain.errors import RuntimeConfigError
from perago.domain.policy import PolicySetting

SIZE = "NAME must be a positive size such as '512KB', '100MB', or '1.5GB'"
DAYS = "NAME must be a positive day count such as '7d' or '30d'"
DURATION = "NAME must be a positive duration such as '30s', '5m', '1h', or '24h'"
INTEGER = "NAME must be a positive integer"
MILLISECONDS = "NAME must be a positive integer number of milliseconds"
ABOVE_ZERO = "NAME must be greater than zero"
VERSION = (
    "NAME must be a git commit, an image digest or a version: ASCII letters, digits and ._:/@+- "
    "only, at most 256"
)
PREFIX = "NAME must contain only ASCII letters and digits"


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (parsing.parse_size, "1KB", 1024),
        (parsing.parse_size, "1.5gb", 1610612736),
        (parsing.parse_size, "0.0000001KB", 1),
        (parsing.parse_size, " 1 MB ", 1048576),
        (parsing.parse_days, " 7D ", timedelta(days=7)),
        (parsing.parse_duration, "1s", timedelta(seconds=1)),
        (parsing.parse_duration, " 1H ", timedelta(hours=1)),
        (parsing.parse_duration, "2d", timedelta(days=2)),
        (parsing.parse_time_to_live, "0s", timedelta(0)),
        (parsing.parse_time_to_live, "5m", timedelta(minutes=5)),
        (parsing.parse_positive_integer, " 5 ", 5),
        (parsing.parse_count, "0", 0),
        (parsing.parse_milliseconds, "10", 10),
        (parsing.parse_boolean, " TRUE ", True),
        (parsing.parse_boolean, "off", False),
        (parsing.parse_worker_id_prefix, " a1 ", "a1"),
        (parsing.parse_instance_id, " host-1.a_b ", "host-1.a_b"),
        (parsing.parse_code_version, " repo/app@sha256:0a1b ", "repo/app@sha256:0a1b"),
        (parsing.parse_compression, "gzip", "gzip"),
        (parsing.parse_compression, "none", None),
        (parsing.parse_execution_mode, " Thread ", "thread"),
        (parsing.parse_text, " http://x/api ", "http://x/api"),
        (parsing.parse_text, "REPLACE-ME", "REPLACE-ME"),
        (parsing.parse_address, ":9102", "127.0.0.1:9102"),
        (parsing.parse_address, " 9102 ", "127.0.0.1:9102"),
        (parsing.parse_address, "0.0.0.0:9102", "0.0.0.0:9102"),
        (parsing.parse_address, "[::1]:9102", "[::1]:9102"),
        (parsing.one_of("a", "b"), " A ", "a"),
    ],
    ids=lambda value: getattr(value, "__name__", repr(value)),
)
def test_a_text_has_one_meaning(parse: parsing.Parse[Any], text: str, value: object) -> None:
    assert parse(text, "NAME") == value


@pytest.mark.parametrize(
    ("parse", "texts", "refusal"),
    [
        (parsing.parse_size, ["1", "-1MB", "1TB", "1e3KB", ".5MB", "1.MB", "1B"], SIZE),
        (parsing.parse_size, ["0MB", "0.0KB"], ABOVE_ZERO),
        (parsing.parse_days, ["0d", "7", "1.5d", "-1d", "7 d", "007d", "9999999999d"], DAYS),
        (parsing.parse_duration, ["0s", "1.5h", "1", "1w", "x", "9999999999d"], DURATION),
        (
            parsing.parse_time_to_live,
            ["1", "-1s", "1w"],
            "NAME must be a duration such as '0s', '5m', '24h', or '7d'",
        ),
        (parsing.parse_positive_integer, ["-1", "1.0", "+5", "1_000", "x", "٣"], INTEGER),
        (parsing.parse_positive_integer, ["0", "00"], ABOVE_ZERO),
        (
            parsing.parse_count,
            ["-1", "x"],
            "NAME must be a whole number such as '0' or '16'",
        ),
        (parsing.parse_milliseconds, ["-5", "x"], MILLISECONDS),
        (parsing.parse_milliseconds, ["0"], ABOVE_ZERO),
        (parsing.parse_boolean, ["maybe"], "NAME must be 'true' or 'false'"),
        (parsing.parse_worker_id_prefix, ["", "  "], "NAME must not be empty"),
        (parsing.parse_worker_id_prefix, ["a-b", "é"], PREFIX),
        (
            parsing.parse_instance_id,
            ["a b"],
            "NAME must contain only ASCII letters, digits, dots, underscores, or hyphens",
        ),
        (
            parsing.parse_code_version,
            ["a b", "-x", "x" * 257],
            VERSION,
        ),
        (parsing.parse_compression, ["zip"], "NAME must be 'gzip'"),
        (
            parsing.parse_execution_mode,
            ["fork"],
            "NAME must be either 'process' or 'thread'",
        ),
        (parsing.parse_text, ["replace-me"], "NAME must be replaced with a real value"),
        (
            parsing.parse_address,
            ["localhost", "910200", "http://x:1"],
            "NAME must be a host and a port such as '127.0.0.1:9102'",
        ),
        (parsing.one_of("a", "b"), ["c"], "NAME must be one of 'a', 'b'"),
        (
            parsing.one_of(*PolicySetting),
            ["setled"],
            "NAME must be one of 'auto', 'head-parent', 'lineage', 'settled'",
        ),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_text_that_cannot_be_meant_is_refused(
    parse: parsing.Parse[Any], texts: list[str], refusal: str
) -> None:
    for text in texts:
        with pytest.raises(RuntimeConfigError) as caught:
            parse(text, "NAME")
        assert str(caught.value) == refusal
