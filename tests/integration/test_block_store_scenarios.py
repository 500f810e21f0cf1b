"""Objects past lakeFS, with a block store that misbehaves or is of another kind than S3."""

import asyncio
import base64
import hashlib
import os
import time
import traceback
from pathlib import Path

import pytest
from tests.integration.http_scene import Arrived, scripted
from tests.integration.transfer_scene import Answering, answers, md5_of, transfer_bench

from perago.adapters.http import HttpTerms
from perago.adapters.lakefs.block_store import MULTIPART_BYTES_MIN, PART_BYTES
from perago.adapters.lakefs.configuration import RouteChoice
from perago.ports.errors import (
    LocalDiskError,
    RequestRefusedError,
    ServiceError,
    UnavailableError,
)

PRESIGNED = b"x" * (5 * 1024 * 1024)


@pytest.mark.parametrize("size", [len(PRESIGNED), MULTIPART_BYTES_MIN + 1])
@pytest.mark.parametrize("kind", ["s3", "azure"])
async def test_a_store_whose_tags_are_no_md5_takes_uploads(
    tmp_path: Path, size: int, kind: str
) -> None:
    kinds: set[str | None] = set()

    async def takes(arrived: Arrived) -> bool:
        kinds.add(arrived.headers.get("x-ms-blob-type"))
        assert "content-md5" in arrived.headers
        assert "authorization" not in arrived.headers, "the key of lakeFS is not the store's"
        return await bench.lakefs.store_well(arrived)

    content = bytes(range(256)) * (size // 256 + 1)
    async with transfer_bench(tmp_path) as bench:
        bench.lakefs.signs, bench.lakefs.blockstore_type = True, kind
        bench.lakefs.stored = takes
        entry = await bench.upload("x", content)
        assert bench.lakefs.objects["x"] == content
        assert entry.checksum == md5_of(content), "what was sent, whatever the store calls it"
        assert kinds == {"blockblob" if kind == "azure" else None}


async def test_the_address_of_each_part_is_asked_for_when_it_is_used(tmp_path: Path) -> None:
    """Even when a part is sent twice: an address that was used has expired by then."""
    failing = {"x/2"}

    async def fails_once(arrived: Arrived) -> bool:
        target = arrived.line.split(" ")[1]
        path = target.partition("?")[0].removeprefix("/")
        if path in failing:
            failing.discard(path)
            await arrived.read_body()
            bench.lakefs.used_addresses.add(target)
            return False
        return await bench.lakefs.store_well(arrived)

    async with transfer_bench(tmp_path, retry_seconds=5.0) as bench:
        bench.lakefs.signs = True
        bench.lakefs.stored = fails_once
        content = bytes(MULTIPART_BYTES_MIN + PART_BYTES // 2)
        await bench.upload("x", content)
        assert bench.lakefs.objects["x"] == content
        assert not failing
        assert "POST /branches/main/objects" not in bench.lakefs.asked, "the store is still the way"


async def test_addresses_that_expire_during_a_long_upload_are_made_late(tmp_path: Path) -> None:
    """Each lives for less than the upload takes, and for longer than one part does."""
    life, part_seconds = 0.9, 0.5
    used: list[float] = []

    async def is_slow(arrived: Arrived) -> bool:
        signed = arrived.line.split(" ")[1].rpartition("signature=")[2]
        age = time.monotonic() - bench.lakefs.asked_at[int(signed) - 1]
        if age > life:
            await arrived.read_body()
            await arrived.answer(b"<Error>Request has expired</Error>", "403 Forbidden")
            return True
        used.append(time.monotonic())
        await asyncio.sleep(part_seconds)
        return await bench.lakefs.store_well(arrived)

    content = bytes(MULTIPART_BYTES_MIN + 4 * PART_BYTES)
    async with transfer_bench(tmp_path, route=RouteChoice.PRESIGNED) as bench:
        bench.lakefs.signs = True
        bench.lakefs.stored = is_slow
        await bench.upload("x", content)
        assert bench.lakefs.objects["x"] == content
        assert used[-1] - used[0] > life / 2


@pytest.mark.parametrize("size", [len(PRESIGNED), MULTIPART_BYTES_MIN + 1])
@pytest.mark.parametrize("route", [RouteChoice.AUTO, RouteChoice.PRESIGNED])
async def test_a_part_that_is_damaged_on_its_way_is_sent_again(
    tmp_path: Path, size: int, route: RouteChoice
) -> None:
    damaged: list[str] = []

    async def compares(arrived: Arrived) -> bool:
        if arrived.line.startswith("PUT") and not damaged:
            damaged.append(arrived.line)
            content = bytearray(await arrived.read_body())
            content[len(content) // 2] ^= 1
            found = base64.b64encode(hashlib.md5(content, usedforsecurity=False).digest())
            # The scene keeps headers in lower case.
            assert arrived.headers["content-md5"] != found.decode().lower()
            page = b"<Error><Code>BadDigest</Code><Message>not what we received</Message></Error>"
            await arrived.answer(page, "400 Bad Request")
            return True
        return await bench.lakefs.store_well(arrived)

    content = os.urandom(1024) * (size // 1024 + 1)
    async with transfer_bench(tmp_path, route=route, retry_seconds=5.0) as bench:
        bench.lakefs.signs = True
        bench.lakefs.stored = compares
        await bench.upload("x", content)
        assert bench.lakefs.objects["x"] == content
        assert damaged
        assert "POST /branches/main/objects" not in bench.lakefs.asked, "the store is still the way"


async def test_a_file_that_becomes_shorter_leaves_no_parts_behind(tmp_path: Path) -> None:
    async def truncates(arrived: Arrived) -> bool:
        os.truncate(tmp_path / "s-x", PART_BYTES)
        return await bench.lakefs.store_well(arrived)

    async with transfer_bench(tmp_path) as bench:
        bench.lakefs.signs = True
        bench.lakefs.stored = truncates
        with pytest.raises(LocalDiskError, match="became shorter while it was uploaded"):
            await bench.upload("x", bytes(MULTIPART_BYTES_MIN))
        assert any(line.startswith("DELETE") for line in bench.lakefs.asked)
        assert bench.lakefs.objects == {}


async def test_a_redirect_of_the_block_store_is_followed(tmp_path: Path) -> None:
    async with transfer_bench(tmp_path) as bench:

        async def moves(arrived: Arrived) -> bool:
            where = f"Location: {region.url}{arrived.line.split(' ')[1]}"
            await arrived.answer(b"", "307 Temporary Redirect", where)
            return False

        async with scripted(bench.lakefs.store_well) as region:
            bench.lakefs.signs = True
            bench.lakefs.stored = moves
            await bench.upload("x", PRESIGNED)
            assert await bench.fetch(bench.order("x")) == [PRESIGNED]
        assert not any("authorization" in seen.headers for seen in region.requests)


@pytest.mark.parametrize("why", ["not there", "refuses"])
async def test_lakefs_itself_is_used_when_its_block_store_cannot_be(
    tmp_path: Path, why: str
) -> None:
    async with transfer_bench(tmp_path) as bench:
        bench.lakefs.signs = True
        if why == "not there":
            bench.lakefs.store_url = "http://127.0.0.1:9"
        else:
            bench.lakefs.stored = answers("403 Forbidden", b"<Error/>")
        await bench.upload("x", PRESIGNED)
        assert await bench.fetch(bench.order("x")) == [PRESIGNED]
        assert len(bench.store.requests) <= 1, "the store is not tried for each object"


async def test_a_block_store_that_was_asked_for_and_cannot_be_used_is_an_error(
    tmp_path: Path,
) -> None:
    async with transfer_bench(tmp_path, route=RouteChoice.PRESIGNED) as bench:
        bench.lakefs.signs = True
        bench.lakefs.objects["x"] = PRESIGNED
        bench.lakefs.stored = answers("403 Forbidden", b"<Error/>")
        with pytest.raises(RequestRefusedError, match="PERAGO_TRANSFER_ROUTE"):
            await bench.fetch(bench.order("x"))


@pytest.mark.parametrize("behind", ["lakefs", "store"])
async def test_one_of_two_servers_is_reached_by_a_proxy(tmp_path: Path, behind: str) -> None:
    ways: dict[str, str] = {}
    terms = HttpTerms(connect_seconds=2.0, proxy_of=lambda url: ways.get(url.split("/")[2]))
    endpoint = "http://hidden.example" if behind == "lakefs" else None
    async with transfer_bench(tmp_path, terms=terms, endpoint_url=endpoint) as bench:
        serve = bench.lakefs.serve if behind == "lakefs" else bench.lakefs.serve_store

        async def hands_on(arrived: Arrived) -> bool:
            method, target, version = arrived.line.split(" ")
            assert target.startswith("http://hidden.example/")
            arrived.line = f"{method} {target.removeprefix('http://hidden.example')} {version}"
            return await serve(arrived)

        async with scripted(hands_on) as proxy:
            ways["hidden.example"] = proxy.url
            if behind == "store":
                bench.lakefs.store_url = "http://hidden.example"
                bench.lakefs.signs = True
            await bench.upload("x", PRESIGNED)
            assert await bench.fetch(bench.order("x")) == [PRESIGNED]
            assert proxy.requests


async def test_the_only_way_is_waited_for_when_it_is_away_for_a_moment(tmp_path: Path) -> None:
    """Nothing was sent to a store that refuses the connection, so it is no refusal."""
    async with transfer_bench(tmp_path, route=RouteChoice.PRESIGNED, retry_seconds=10.0) as bench:
        bench.lakefs.signs = True
        bench.lakefs.objects["x"] = PRESIGNED
        there, bench.lakefs.store_url = bench.lakefs.store_url, "http://127.0.0.1:9"
        asyncio.get_running_loop().call_later(
            0.5, lambda: setattr(bench.lakefs, "store_url", there)
        )
        assert await bench.fetch(bench.order("x")) == [PRESIGNED]


async def test_parts_are_joined_later_when_the_server_asks_to_wait(tmp_path: Path) -> None:
    async with transfer_bench(tmp_path, route=RouteChoice.PRESIGNED, retry_seconds=5.0) as bench:
        bench.lakefs.signs = True
        bench.lakefs.joins_refused = 1
        content = bytes(MULTIPART_BYTES_MIN + 1)
        await bench.upload("x", content)
        assert bench.lakefs.objects["x"] == content
        assert bench.lakefs.joins_refused == 0


LARGE = {f"x{number}": PRESIGNED for number in range(8)}
CONFIG = "GET /api/v1/config"


async def test_objects_that_move_side_by_side_share_one_question_for_the_store(
    tmp_path: Path,
) -> None:
    async with transfer_bench(tmp_path) as bench:
        bench.lakefs.signs = True
        bench.lakefs.objects |= LARGE
        fetched = await bench.fetch(*map(bench.order, LARGE))
        await asyncio.gather(*(bench.upload(f"new-{path}", PRESIGNED) for path in LARGE))
        assert fetched == list(LARGE.values())
        assert bench.lakefs.asked.count(CONFIG) == 1


async def test_the_question_for_the_store_outlives_who_asked_first(tmp_path: Path) -> None:
    asked, may_answer = asyncio.Event(), asyncio.Event()

    async def waits(arrived: Arrived) -> bool:
        asked.set()
        await may_answer.wait()
        return await answers("200 OK", b'{"storage_config": {}}')(arrived)

    async with transfer_bench(tmp_path) as bench:
        bench.lakefs.configured = waits
        bench.lakefs.objects |= LARGE
        first = asyncio.create_task(bench.fetch(bench.order("x0")))
        await asked.wait()
        second = asyncio.create_task(bench.fetch(bench.order("x1")))
        await asyncio.sleep(0.05)
        first.cancel()
        await asyncio.wait([first])
        may_answer.set()
        assert await second == [PRESIGNED]
        assert bench.lakefs.asked.count(CONFIG) == 1


async def test_a_question_for_the_store_that_failed_is_asked_again(tmp_path: Path) -> None:
    async with transfer_bench(tmp_path) as bench:
        bench.lakefs.signs = True
        bench.lakefs.objects |= LARGE
        bench.lakefs.configured = answers("503 Service Unavailable", b"later")
        with pytest.raises(UnavailableError, match="the server's configuration"):
            await bench.fetch(*map(bench.order, LARGE))
        bench.lakefs.configured = None
        assert await bench.fetch(bench.order("x0")) == [PRESIGNED]
        assert bench.store.requests


async def test_keys_that_may_not_ask_for_the_store_go_through_lakefs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with transfer_bench(tmp_path) as bench:
        bench.lakefs.signs = True
        bench.lakefs.configured = answers("403 Forbidden", b'{"message": "not permitted"}')
        await bench.upload("x", PRESIGNED)
        assert await bench.fetch(bench.order("x")) == [PRESIGNED]
        assert not bench.store.requests
        assert bench.lakefs.asked.count(CONFIG) == 1
        assert (await bench.transport.ask_for_route())[0] == "api"
    assert [record.message for record in caplog.records if "fs:ReadConfig" in record.message]


async def test_keys_that_may_not_ask_for_the_store_cannot_have_that_way_alone(
    tmp_path: Path,
) -> None:
    async with transfer_bench(tmp_path, route=RouteChoice.PRESIGNED) as bench:
        bench.lakefs.objects["x"] = PRESIGNED
        bench.lakefs.configured = answers("403 Forbidden", b'{"message": "not permitted"}')
        with pytest.raises(RequestRefusedError, match=r"fs:ReadConfig.*PERAGO_TRANSFER_ROUTE"):
            await bench.fetch(bench.order("x"))


S3_PAGE = (
    b"<Error><Code>SignatureDoesNotMatch</Code><Message>It does not match.</Message>"
    b"<StringToSign>AWS4-HMAC-SHA256 hush</StringToSign><SignatureProvided>hush</SignatureProvided>"
    b"</Error>"
)


def says_where(arrived: Arrived) -> bytes:
    """The page of a proxy, which repeats the address."""
    return b"<p>You may not read %s</p>" % arrived.line.split(" ")[1].encode()


async def quotes(arrived: Arrived) -> bool:
    return await answers("403 Forbidden", says_where(arrived))(arrived)


async def breaks(arrived: Arrived) -> bool:
    arrived.reset()
    return False


async def redirects(arrived: Arrived) -> bool:
    where = "Location: s3://elsewhere/x?signature=hush"
    return await answers("307 Temporary Redirect", b"", where)(arrived)


@pytest.mark.parametrize("route", [RouteChoice.AUTO, RouteChoice.PRESIGNED])
@pytest.mark.parametrize(
    ("where", "stored"),
    [
        ("s3://bucket", None),
        ("http://", None),
        ("http://store:99999", None),
        ("http://127.0.0.1:9", None),
        ("", answers("403 Forbidden", S3_PAGE)),
        ("", quotes),
        ("", breaks),
        ("", redirects),
    ],
    ids=["no http", "no host", "no port", "not there", "s3", "proxy", "broken", "redirect"],
)
async def test_a_signature_is_in_no_error_and_no_log(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    where: str,
    stored: Answering | None,
    route: RouteChoice,
) -> None:
    """Whoever reads a signed address may use it for minutes."""
    said: list[str] = []
    async with transfer_bench(tmp_path, route=route) as bench:
        bench.lakefs.signs, bench.lakefs.stored = True, stored
        bench.lakefs.store_url = where or bench.lakefs.store_url
        bench.lakefs.objects["x"] = PRESIGNED
        for move in (bench.fetch(bench.order("x")), bench.upload("y", PRESIGNED)):
            try:
                await move
            except ServiceError as error:
                said.extend(traceback.format_exception(error))  # a log shows the causes too
    said.extend(record.getMessage() for record in caplog.records)
    assert said
    assert not [text for text in said if "signature=" in text or "hush" in text]


async def test_what_a_store_refuses_is_said_in_its_words(tmp_path: Path) -> None:
    async with transfer_bench(tmp_path, route=RouteChoice.PRESIGNED) as bench:
        bench.lakefs.signs, bench.lakefs.stored = True, answers("403 Forbidden", S3_PAGE)
        bench.lakefs.objects["x"] = PRESIGNED
        with pytest.raises(RequestRefusedError, match="SignatureDoesNotMatch: It does not match"):
            await bench.fetch(bench.order("x"))
