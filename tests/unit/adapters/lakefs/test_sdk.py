"""How the generated client is set up: no request without a time-out, none sent twice."""

import ssl
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perago.adapters.lakefs.address import LakeFSAddressError
from perago.adapters.lakefs.configuration import LakeFSConfiguration
from perago.adapters.lakefs.sdk import open_sdk

BASE = LakeFSConfiguration(
    endpoint_url="http://lakefs.test:8000", access_key_id="key", secret_access_key="secret"
)


def pool_options(configuration: LakeFSConfiguration) -> dict[str, Any]:
    sdk: Any = open_sdk(configuration)
    options: dict[str, Any] = sdk.refs.api_client.rest_client.pool_manager.connection_pool_kw
    return options


def test_urllib3_never_sends_a_request_again() -> None:
    retries = pool_options(BASE)["retries"]

    assert (retries.total, retries.redirect) == (False, 0)


def test_the_pool_has_a_connection_for_every_thread() -> None:
    options = pool_options(replace(BASE, calls_concurrent=3, transfers_concurrent=5))

    assert options["maxsize"] == 8


def test_a_ca_file_that_is_missing_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(LakeFSAddressError, match="certificate"):
        open_sdk(replace(BASE, ca_file=Path("absent.pem")))


def test_verification_can_be_switched_off() -> None:
    assert pool_options(replace(BASE, verify_tls=False))["cert_reqs"] is ssl.CERT_NONE


def test_a_proxy_keeps_its_credentials_out_of_its_address() -> None:
    sdk: Any = open_sdk(replace(BASE, proxy="http://user:pass@proxy.test:3128"))
    configuration = sdk.refs.api_client.configuration

    assert configuration.proxy == "http://proxy.test:3128"
    assert configuration.proxy_headers == {"proxy-authorization": "Basic dXNlcjpwYXNz"}


def test_a_configuration_prints_no_secret() -> None:
    printed = repr(replace(BASE, secret_access_key="hidden", proxy="http://u:hidden@p"))

    assert "hidden" not in printed
