"""Addresses of a Conductor: what is put right, what is refused, what is shown."""

import pytest

from perago.adapters.conductor.client import ConductorClient, ConductorSettings, api_address
from perago.ports.errors import UnavailableError


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("http://conductor:8080/api", "http://conductor:8080/api"),
        ("http://conductor:8080/api/", "http://conductor:8080/api"),
        ("  https://conductor/gateway/api//\n", "https://conductor/gateway/api"),
        ("http://conductor:8080/api?x=1#y", "http://conductor:8080/api"),
        ("http://conductor:8080", "http://conductor:8080"),
        ("http://conductor:8080/", "http://conductor:8080"),
    ],
    ids=["as it is", "slash at the end", "blanks", "query", "no path stays so", "only a slash"],
)
def test_an_address_is_put_into_one_form(given: str, used: str) -> None:
    assert api_address(given) == used


@pytest.mark.parametrize(
    "given", ["", "conductor:8080/api", "ftp://conductor/api", "http:///api", "/api"]
)
def test_what_is_no_address_is_refused_with_the_variable_to_set(given: str) -> None:
    with pytest.raises(UnavailableError, match="PERAGO_CONDUCTOR"):
        api_address(given)


def test_credentials_in_an_address_are_not_shown() -> None:
    client = ConductorClient(ConductorSettings("http://key:secret@conductor:8080/api"))
    assert client.address == "http://conductor:8080/api"


@pytest.mark.parametrize(
    "given", ["ftp://key:secret@conductor/api", "http://key:secret@/api", "http://key:secret@[::1/"]
)
def test_credentials_in_what_is_no_address_are_not_shown(given: str) -> None:
    with pytest.raises(UnavailableError, match="PERAGO_CONDUCTOR") as caught:
        api_address(given)
    assert "secret" not in str(caught.value)


def test_a_password_that_is_not_quoted_is_refused_and_not_shown() -> None:
    """What stands before its slash would be taken for host and port."""
    with pytest.raises(UnavailableError, match="PERAGO_CONDUCTOR") as caught:
        api_address("http://key:with/secret@conductor:8080/api")
    assert "secret" not in str(caught.value)


def test_secrets_are_not_in_the_representation_of_settings() -> None:
    settings = ConductorSettings("http://conductor/api", auth_key="k", auth_secret="hidden")
    assert "hidden" not in repr(settings)
