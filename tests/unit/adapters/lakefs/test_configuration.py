"""Addresses as people write them, what is repaired and refused, and the pause before a repeat."""

import pytest

from perago.adapters.http import HttpTerms
from perago.adapters.lakefs.configuration import (
    LakeFSAddressError,
    LakeFSConfiguration,
    RetryTerms,
    api_address,
)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("http://lakefs.test:8000", "http://lakefs.test:8000/api/v1"),
        ("http://lakefs.test:8000/", "http://lakefs.test:8000/api/v1"),
        ("http://lakefs.test:8000/api", "http://lakefs.test:8000/api/v1"),
        ("http://lakefs.test:8000/api/v1", "http://lakefs.test:8000/api/v1"),
        ("http://lakefs.test:8000/api/v1/", "http://lakefs.test:8000/api/v1"),
        (" https://lakefs.test ", "https://lakefs.test/api/v1"),
        ("https://proxy.test/lakefs/api/v1/", "https://proxy.test/lakefs/api/v1"),
        ("http://[::1]:8000", "http://[::1]:8000/api/v1"),
    ],
)
def test_one_spelling_of_every_address(written: str, meant: str) -> None:
    assert api_address(written) == meant


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("http://lakefs.test:8000/repositories", "its path '/repositories'"),
        ("http://lakefs.test/api/v2", "its path '/api/v2'"),
        ("http://lakefs.test/login?next=/", "it has a query"),
        ("s3://bucket", "its scheme is 's3'"),
        ("http://", "it names no host"),
        ("", "it has no scheme"),
        ("lakefs.test:8000", "it has no scheme"),
        ("127.0.0.1", "it has no scheme"),
        ("http://lakefs.test:port", "Port could not be cast"),
    ],
)
def test_a_wrong_address_is_named_with_what_was_expected(written: str, found: str) -> None:
    with pytest.raises(LakeFSAddressError) as caught:
        api_address(written)

    assert found in str(caught.value)
    assert "expected http(s)://HOST:PORT" in str(caught.value)
    assert repr(written) in str(caught.value)


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("http://name:secret@lakefs.test", "it carries credentials"),
        ("http://name:with/secret@lakefs.test", "Port could not be cast"),
        ("http://name:secret@lakefs.test:80800", "Port out of range"),
        ("http://name:secret@[lakefs.test", "Invalid IPv6 URL"),
        ("https//name:secret@lakefs.test", "it has no scheme"),
        ("ftp://name:secret@lakefs.test", "its scheme is 'ftp'"),
        ("http://name:secret@/", "it names no host"),
    ],
)
def test_credentials_in_an_address_are_refused_and_not_repeated(written: str, found: str) -> None:
    with pytest.raises(LakeFSAddressError, match=found) as caught:
        api_address(written)

    assert "secret" not in str(caught.value)


def test_a_configuration_prints_no_secret() -> None:
    configuration = LakeFSConfiguration(
        endpoint_url="http://lakefs.test:8000",
        access_key_id="key",
        secret_access_key="hidden",
        http=HttpTerms(proxy_of=lambda _: "http://u:hidden@p"),
    )

    assert "hidden" not in repr(configuration)


TERMS = RetryTerms(seconds_max=60.0, first_pause_seconds=0.2, pause_seconds_max=10.0)


def pause(failures: int, since: float, asked_for: float | None, chance: float) -> float | None:
    return TERMS.pause_before(
        failures=failures, seconds_since_first=since, asked_for=asked_for, chance=chance
    )


@pytest.mark.parametrize(
    ("failures", "since", "asked_for", "chance", "expected"),
    [
        (1, 0.0, None, 1.0, 0.2),
        (1, 0.0, None, 0.0, 0.0),
        (2, 0.2, None, 1.0, 0.4),
        (5, 3.0, None, 0.5, 1.6),
        (20, 30.0, None, 1.0, 10.0),
        (2000, 30.0, None, 1.0, 10.0),
        (1, 0.0, 5.0, 1.0, 5.2),
        (1, 0.0, 61.0, 0.0, None),
        (9, 60.5, None, 0.0, None),
        (9, 55.0, None, 1.0, None),
    ],
    ids=[
        "the first pause",
        "all of it is left to chance",
        "twice as long",
        "half the chance",
        "never longer than the longest",
        "however often it failed",
        "what the server asks for comes first",
        "a server that asks for more than there is",
        "the time is over",
        "the time would be over",
    ],
)
def test_the_pause_before_another_attempt(
    failures: int, since: float, asked_for: float | None, chance: float, expected: float | None
) -> None:
    assert pause(failures, since, asked_for, chance) == expected


def test_an_outage_of_thirty_seconds_is_waited_out_by_every_request() -> None:
    """Whatever chance says, the time counts and not the number of attempts."""
    for chance in (0.01, 0.5, 1.0):
        since, failures = 0.0, 1
        while since < 30.0:
            waited = pause(failures, since, None, chance)
            assert waited is not None
            since, failures = since + waited, failures + 1
