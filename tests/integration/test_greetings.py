"""What the adapters make of answers to the first question, down to the bytes on the wire."""

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest
from tests.integration.http_scene import Arrived, ScriptedServer, scripted

from perago.adapters.conductor.client import ConductorSettings
from perago.adapters.conductor.installation import open_conductor
from perago.adapters.lakefs.configuration import LakeFSConfiguration
from perago.adapters.lakefs.installation import open_lakefs
from perago.ports.errors import AccessDeniedError, UnavailableError
from perago.ports.installations import Server, ServerFacts

DATE = "Date: Thu, 19 Nov 2026 20:13:14 GMT"
SAID = datetime(2026, 11, 19, 20, 13, 14, tzinfo=UTC)
CONFIG = {"version_config": {"version": "1.86.0"}, "storage_config": {"pre_sign_support": True}}
USER = {"user": {"id": "worker"}}


@asynccontextmanager
async def lakefs_that_says(
    answers: Mapping[str, tuple[str, bytes]], *headers: str
) -> AsyncGenerator[tuple[Server, ScriptedServer]]:
    """A lakeFS with a status and a body for the last word of each path."""

    async def script(arrived: Arrived) -> bool:
        word = arrived.line.split()[1].partition("?")[0].rpartition("/")[2]
        status, body = answers[word]
        if status.startswith("204"):
            await arrived.send("\r\n".join(["HTTP/1.1 204 No Content", *headers, "", ""]).encode())
        else:
            await arrived.answer(body, status, *headers)
        return True

    async with scripted(script) as server:
        configuration = LakeFSConfiguration(
            endpoint_url=server.url, access_key_id="a", secret_access_key="b"
        )
        lakefs = open_lakefs(configuration)
        assert lakefs.server is not None
        try:
            yield lakefs.server, server
        finally:
            await lakefs.close()


async def test_a_health_check_tells_the_time_of_the_server() -> None:
    async with lakefs_that_says({"healthcheck": ("204", b"")}, DATE) as (lakefs, _):
        assert await lakefs.greet() == SAID
    async with lakefs_that_says({"healthcheck": ("204", b"")}) as (lakefs, _):
        assert await lakefs.greet() is None
    async with lakefs_that_says({"healthcheck": ("204", b"")}, "Date: soon") as (lakefs, _):
        assert await lakefs.greet() is None


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        ("200 OK", b"<html>lakeFS</html>", "answered with 200"),
        ("403 Forbidden", b"<html>no</html>", "answered with 403"),
        ("404 Not Found", b"<html>no</html>", r"no lakeFS API.*; expected http\(s\)://HOST"),
        ("404 Not Found", b'{"message":"No static resource x."}', r"expected http\(s\)://HOST"),
        ("502 Bad Gateway", b"down", "502"),
    ],
)
async def test_what_is_no_health_check_is_no_lakefs(status: str, body: bytes, words: str) -> None:
    async with lakefs_that_says({"healthcheck": (status, body)}, DATE) as (lakefs, _):
        with pytest.raises(UnavailableError, match=words):
            await lakefs.greet()


async def test_facts_need_a_key_but_no_right() -> None:
    said = {"user": ("200 OK", json.dumps(USER).encode())}
    known = {**said, "config": ("200 OK", json.dumps(CONFIG).encode())}
    async with lakefs_that_says(known) as (lakefs, _):
        assert await lakefs.facts() == ServerFacts("1.86.0", "worker", signs=True)
    refused = {**said, "config": ("403 Forbidden", b'{"message":"insufficient permissions"}')}
    async with lakefs_that_says(refused) as (lakefs, _):
        assert await lakefs.facts() == ServerFacts(user="worker")
    unknown = {"user": ("401 Unauthorized", b'{"message":"error authenticating request"}')}
    async with lakefs_that_says(unknown) as (lakefs, _):
        with pytest.raises(AccessDeniedError):
            await lakefs.facts()


async def test_the_time_of_conductor_needs_no_key() -> None:
    async def script(arrived: Arrived) -> bool:
        await arrived.answer(b"who are you", "401 Unauthorized", DATE)
        return True

    async with scripted(script) as server:
        conductor = open_conductor(ConductorSettings(server.url, "key", "hush"))
        assert conductor.server is not None
        assert await conductor.server.greet() == SAID
        assert len(server.requests) == 1, "no token was asked for"
        await conductor.close()
    with pytest.raises(UnavailableError):
        await conductor.server.greet()
    await conductor.close()
