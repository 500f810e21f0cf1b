"""Addresses as people write them, what is repaired and what is refused."""

import pytest

from perago.adapters.http import HttpTerms
from perago.adapters.lakefs.configuration import (
    LakeFSAddressError,
    LakeFSConfiguration,
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
    assert caught.value.address == written


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
    assert "secret" not in caught.value.address


def test_a_configuration_prints_no_secret() -> None:
    configuration = LakeFSConfiguration(
        endpoint_url="http://lakefs.test:8000",
        access_key_id="key",
        secret_access_key="hidden",
        http=HttpTerms(proxy_of=lambda _: "http://u:hidden@p"),
    )

    assert "hidden" not in repr(configuration)
