"""`perago watch` on real servers: a page that follows a workflow, a held run, and its end."""

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, closing
from http.client import HTTPConnection
from pathlib import Path
from time import perf_counter
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.contract.real_lakefs import RealLakeFS
from tests.integration.attempt_scene import AttemptScene
from tests.integration.outage_proxy import outage_proxy
from tests.kit_cases import counting_task

from perago.domain.policy import PolicySetting
from perago.ports.installations import ConductorInstallation
from perago.testing import PeragoEnvironment, foreign_commit, sequence
from perago.testing.contract.lakefs_under_test import MAIN
from perago.testing.faults import crash
from perago_servers import ConductorServer, LakefsServer

pytestmark = [pytest.mark.lakefs, pytest.mark.conductor]
SEEN_SECONDS_MAX = 60.0  # a reading comes every two seconds; the machine may do other things
Settings = Mapping[str, str]


def settings_of(lakefs: LakefsServer, conductor: ConductorServer, root: Path) -> Settings:
    """The environment of an operator who has set Perago up."""
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("PERAGO_")},
        "PERAGO_WORKSPACE_ROOT": str(root),
        "PERAGO_LAKEFS": lakefs.endpoint,
        "PERAGO_CONDUCTOR": conductor.api_url,
        "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": lakefs.access_key_id,
        "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": lakefs.secret_access_key,
    }


async def start(settings: Settings, *words: str) -> asyncio.subprocess.Process:
    """Start `perago watch`."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "perago", "watch", *words),
        env=settings,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


@asynccontextmanager
async def watching(settings: Settings, *words: str) -> AsyncGenerator["Watched"]:
    """A page that is served, and ended by Ctrl-C behind the block."""
    process = await start(settings, *words)
    assert process.stderr is not None
    line = (await process.stderr.readline()).decode()
    found = re.match(r"(http://127\.0\.0\.1:\d+/) \(Ctrl-C ends\)", line)
    assert found, line + (await process.stderr.read()).decode()
    yield Watched(found[1])
    process.send_signal(signal.SIGINT)
    _, said = await process.communicate()
    assert process.returncode == 0, said.decode()
    assert said.decode().splitlines()[-1] == "stopped"
    assert "Traceback" not in said.decode()


class Watched:
    """The page as a browser gets it."""

    def __init__(self, url: str) -> None:
        self.address = urlsplit(url).netloc

    async def text(self) -> str:
        """What is served just now."""

        def get() -> str:
            with closing(HTTPConnection(self.address, timeout=30)) as connection:
                connection.request("GET", "/page.json")
                return connection.getresponse().read().decode()

        return await asyncio.to_thread(get)

    async def until(self, holds: Callable[[Any], bool]) -> Any:  # noqa: ANN401 - JSON
        """The page as soon as it is so."""
        limit = perf_counter() + SEEN_SECONDS_MAX
        while True:
            page: Any = json.loads(await self.text())["page"]
            if holds(page):
                return page
            assert perf_counter() < limit, page
            await asyncio.sleep(0.2)


def came_to(page: Any) -> list[str]:  # noqa: ANN401 - JSON
    """How far each attempt came."""
    return [each["came_to"] for each in page["scenes"][0]["attempts"]]


async def test_a_page_follows_a_workflow_that_retries_to_its_end(
    lakefs: RealLakeFS,
    conductor: ConductorInstallation,
    lakefs_server: LakefsServer,
    conductor_server: ConductorServer,
    tmp_path: Path,
) -> None:
    settings = settings_of(lakefs_server, conductor_server, tmp_path / "root")
    scene = AttemptScene(lakefs, conductor, tmp_path, PolicySetting.SETTLED)
    await scene.create()
    await scene.start()
    assert await scene.attempt(crash(after="decide")) is None
    opened, program = tmp_path / "opened", tmp_path / "browser"
    program.write_text(f'#!/bin/sh\necho "$1" > {opened}\n')
    program.chmod(0o700)
    settings = {**settings, "BROWSER": f"{program} %s"}
    async with watching(settings, scene.workflow, "--open") as watched:
        running = await watched.until(lambda page: came_to(page) == ["decided", "queued"])
        assert running["live"]
        first = running["scenes"][0]["attempts"][0]
        steps = {step["name"]: step for step in first["steps"]}
        times = [steps[name]["at"] for name in ("queued", "polled", "staged", "ended")]
        assert None not in times, steps
        # lakeFS tells whole seconds.
        assert times[0] <= times[1] <= times[2] + 1 <= times[3] + 1, steps
        published = await scene.completed()
        human = await lakefs.commit_files(scene.repository, MAIN, {"elsewhere/human": b"1"})
        assert opened.read_text().strip() == f"http://{watched.address}/"
        ended = await watched.until(lambda page: not page["live"])
        assert came_to(ended) == ["decided", "published"]
        (repository,) = ended["scenes"][0]["repositories"]
        kinds = {
            each["id"]: each["kind"]
            for branch in repository["branches"]
            for each in branch["commits"]
        }
        assert kinds[published] == "published"
        assert kinds.get(human, "foreign") == "foreign"
        assert kinds[steps["staged"]["ref"]] == "staged"
        for secret in (lakefs_server.secret_access_key, lakefs_server.access_key_id):
            assert secret not in await watched.text()


async def test_a_held_run_and_its_foreign_commit_are_in_the_document(
    env: PeragoEnvironment,
    lakefs_server: LakefsServer,
    conductor_workers_server: ConductorServer,
    tmp_path: Path,
) -> None:
    settings = settings_of(lakefs_server, conductor_workers_server, tmp_path / "root")
    first, _ = counting_task("first")
    second, runs = counting_task("second")
    runs.append(1)  # else it would write what the first one wrote, and publish nothing
    repository = await env.repository("held", {"data/in.txt": "in"})
    await env.register(first, second)
    env.plan(foreign_commit(before="merge", task="perago.finish"))
    workspace = await repository.workspace()
    given: dict[str, object] = {"workspace": workspace, "params": {"first": {}, "second": {}}}
    run = await env.start([sequence("flow", first, second, transaction=True)], given)
    await env.until_idle()
    process = await start(settings, run.id, "--json")
    out, said = await process.communicate()
    assert process.returncode == 0, said.decode()
    document = json.loads(out)
    assert document["schema"] == "perago.watch/1"
    (scene,) = document["scenes"]
    assert (scene["status"], document["live"]) == ("FAILED", False)
    (held,) = scene["runs"]
    assert (held["state"], held["publication"]) == ("held", None)
    by_name = {each["name"]: each for each in scene["repositories"][0]["branches"]}
    assert "foreign" in {each["kind"] for each in by_name["main"]["commits"]}
    labels = [each["label"] for each in by_name[held["branch"]]["commits"]]
    assert labels[:2] == ["second #1", "first #1"]


@pytest.mark.parametrize("which", ["Conductor", "lakeFS"])
async def test_an_outage_is_said_on_the_page_which_goes_on_behind_it(
    lakefs: RealLakeFS,
    conductor: ConductorInstallation,
    lakefs_server: LakefsServer,
    conductor_server: ConductorServer,
    tmp_path: Path,
    which: str,
) -> None:
    settings = dict(settings_of(lakefs_server, conductor_server, tmp_path / "root"))
    scene = AttemptScene(lakefs, conductor, tmp_path, PolicySetting.SETTLED)
    await scene.create()
    await scene.start()
    name = "PERAGO_CONDUCTOR" if which == "Conductor" else "PERAGO_LAKEFS"
    async with outage_proxy(settings[name]) as proxy:
        through = urlsplit(proxy.endpoint).netloc
        settings[name] = urlsplit(settings[name])._replace(netloc=through).geturl()
        async with watching(settings, scene.workflow) as watched:
            await watched.until(lambda page: came_to(page) == ["queued"])
            proxy.leave()
            during = await watched.until(lambda page: page["notice"])
            assert which in during["notice"]
            assert (came_to(during), during["live"]) == (["queued"], True)
            await scene.completed()
            await proxy.come_back()
            after = await watched.until(lambda page: not page["live"])
            assert (after["notice"], came_to(after)) == ("", ["published"])


async def test_an_unknown_workflow_is_an_error_with_the_next_command(
    lakefs_server: LakefsServer, conductor_server: ConductorServer, tmp_path: Path
) -> None:
    settings = settings_of(lakefs_server, conductor_server, tmp_path / "root")
    process = await start(settings, "no-such-workflow")
    _, said = await process.communicate()
    assert process.returncode == 2
    text = said.decode()
    assert "Conductor does not know workflow no-such-workflow" in text
    assert "PRG-X006: `perago attempts WORKFLOW --repo REPO`" in text
