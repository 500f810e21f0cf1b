"""Addresses as people write them, what is repaired and what is refused."""

from pathlib import Path

import pytest

from perago.adapters.lakefs.address import (
    LakeFSAddressError,
    api_address,
    certificate_authority,
    proxy_address,
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
        ("http://lakefs.test/login?next=/", "it carries a query"),
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


def test_credentials_in_an_address_are_refused_and_not_repeated() -> None:
    with pytest.raises(LakeFSAddressError, match="it carries credentials") as caught:
        api_address("http://name:secret@lakefs.test")

    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("environment", "proxy"),
    [
        ({}, None),
        ({"HTTP_PROXY": "http://p:1"}, "http://p:1"),
        ({"http_proxy": "http://p:2", "HTTP_PROXY": "http://p:1"}, "http://p:2"),
        ({"HTTPS_PROXY": "http://p:1"}, None),
        ({"ALL_PROXY": "http://p:3"}, "http://p:3"),
        ({"HTTP_PROXY": "http://p:1", "NO_PROXY": "lakefs.test"}, None),
        ({"HTTP_PROXY": "http://p:1", "NO_PROXY": ".test,other"}, None),
        ({"HTTP_PROXY": "http://p:1", "NO_PROXY": "*"}, None),
        ({"HTTP_PROXY": "http://p:1", "NO_PROXY": "elsewhere"}, "http://p:1"),
        ({"HTTP_PROXY": ""}, None),
    ],
    ids=str,
)
def test_the_usual_variables_name_the_proxy(environment: dict[str, str], proxy: str | None) -> None:
    assert proxy_address("http://lakefs.test:8000/api/v1", environment) == proxy


def test_a_certificate_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LakeFSAddressError, match="does not exist"):
        certificate_authority("https://lakefs.test/api/v1", tmp_path / "ca.pem")


def test_a_certificate_file_is_handed_on(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("certificate")

    assert certificate_authority("https://lakefs.test/api/v1", file) == str(file)
    assert certificate_authority("https://lakefs.test/api/v1", None) is None
