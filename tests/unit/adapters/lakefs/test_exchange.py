"""What is believed of an answer that is not a success."""

import pytest

from perago.adapters.lakefs.exchange import TEXT_MAX_CHARACTERS, Lost, Refused, read_refusal

PAGE = "<!DOCTYPE html><html><title>default backend - 404</title></html>"


def test_a_refusal_of_lakefs_is_its_message() -> None:
    assert read_refusal(404, '{"message":"tag not found"}\n') == Refused(404, "tag not found")


def test_a_conflict_of_lakefs_has_no_message() -> None:
    assert read_refusal(409, '{"reference":""}') == Refused(409, "")


@pytest.mark.parametrize("status", [404, 409, 412])
@pytest.mark.parametrize("body", [PAGE, "", "404 page not found", "[]", '"no"'])
def test_a_proxy_cannot_say_that_something_is_missing_taken_or_refused(
    status: int, body: str
) -> None:
    assert isinstance(read_refusal(status, body), Lost)


@pytest.mark.parametrize("status", [400, 401, 403, 413, 429, 500, 502, 503, 504])
def test_a_proxy_can_refuse_or_fail(status: int) -> None:
    assert read_refusal(status, PAGE) == Refused(status, PAGE)


def test_an_address_without_this_api_is_no_answer() -> None:
    assert isinstance(read_refusal(404, '{"message":"invalid API endpoint"}'), Lost)


def test_a_page_is_shortened_and_a_message_is_not() -> None:
    long = "x" * (TEXT_MAX_CHARACTERS + 1)

    assert len(read_refusal(502, long).text) == TEXT_MAX_CHARACTERS + len("...")
    assert read_refusal(412, f'{{"message":"{long}"}}') == Refused(412, long)
