"""Accidents on real servers: `perago doctor` names each, and the command that it prints cures it.

Community lakeFS has one user who may do everything, so missing rights are brought about by a proxy
before it that refuses as lakeFS refuses. A clock that is off is brought about by a proxy that
changes the time in answers, and `timedatectl` there by the end of that.
"""

from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from os import environ
from pathlib import Path
from time import perf_counter
from urllib.parse import urlsplit

import pytest
from tests.contract.real_conductor import settings_of
from tests.contract.real_lakefs import RealLakeFS
from tests.integration.attempt_scene import AttemptScene
from tests.integration.doctor_scene import MAIN, DataOfLakeFS, Front, Scene, front, on_this_machine
from tests.unit.app.command_line.command_run import Ran, Run
from tests.unit.app.command_line.conftest import project, run
from tests.unit.remedies.shell import DONE, Shell

from perago.adapters.conductor.installation import open_conductor
from perago.domain.attempt import AttemptStatus
from perago.domain.fence import FENCE_FILE
from perago.domain.lakefs import CommitId, RepositoryId
from perago.domain.paths import FENCE_PATH
from perago.domain.policy import PolicySetting
from perago_servers import ConductorServer, LakefsServer, ToxiproxyServer, lakefs_server
from perago_servers.lakefs import s3_store
from perago_servers.toxiproxy import Proxy

__all__ = ["project", "run"]
pytestmark = pytest.mark.lakefs

Names = Mapping[str, str]
Brought = Generator[Names]
NO_NAMES: Names = {}
FILES = {"data/a": b"1", FENCE_PATH: FENCE_FILE}
# A doctor on a machine with much else to do; alone it takes one or two.
SECONDS_MAX = 30.0


@pytest.fixture
def scene(
    project: Path, run: Run, monkeypatch: pytest.MonkeyPatch, lakefs_server: LakefsServer
) -> Scene:
    """A healthy worker: a repository with the fence."""
    (project.parent / "home").mkdir()
    # The cache of servers is found below HOME; without this lakectl would be built again.
    monkeypatch.setenv(
        "XDG_CACHE_HOME", environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    )
    monkeypatch.setenv("HOME", str(project.parent / "home"))
    for name in ("HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    shell = Shell(project, run, monkeypatch)
    shell.servers = {name: on_this_machine(name) for name in ("lakectl", "curl")}
    made = Scene(shell, lakefs_server, RepositoryId(""))
    made.use(lakefs_server)
    shell("export PERAGO_CONDUCTOR=memory:")
    made.create(FILES)
    return made


@contextmanager
def wrong_key(scene: Scene) -> Brought:
    right = scene.lakefs
    scene.use_key(right.access_key_id, "of-another-server")
    yield {"KEY_ID": right.access_key_id, "SECRET": right.secret_access_key}


@contextmanager
def no_rights(scene: Scene) -> Brought:
    """A user who may only read."""
    right = scene.lakefs
    known_as = f"{right.access_key_id}:{right.secret_access_key}"
    with front(Front(right.endpoint, reader="reader:may-only-read", known_as=known_as)) as before:
        scene.shell(f"export PERAGO_LAKEFS={before.endpoint}")
        scene.use_key("reader", "may-only-read")
        yield {"KEY_ID": right.access_key_id, "SECRET": right.secret_access_key}


@contextmanager
def fence_missing(scene: Scene) -> Brought:
    scene.commit({FENCE_PATH: None})
    yield NO_NAMES


@contextmanager
def fence_altered(scene: Scene) -> Brought:
    altered = FENCE_FILE.replace(b"if expected ~= nil then", b"if false then")
    scene.commit({FENCE_PATH: altered})
    yield NO_NAMES


@contextmanager
def branch_dirty(scene: Scene) -> Brought:
    scene.ask(lambda harness: harness.write(scene.repository, MAIN, "data/draft", b"draft"))
    yield NO_NAMES


@contextmanager
def branch_protected(scene: Scene) -> Brought:
    scene.ask(lambda harness: harness.protect(scene.repository, MAIN))
    scene.shell("export PERAGO_PUBLICATION_POLICY=head-parent")
    yield NO_NAMES


@contextmanager
def clock_off(scene: Scene) -> Brought:
    with front(Front(scene.lakefs.endpoint, ahead=timedelta(minutes=10))) as before:
        scene.shell(f"export PERAGO_LAKEFS={before.endpoint}")

        def timedatectl(words: list[str]) -> Ran:
            assert words == ["set-ntp", "true"]
            before.ahead = timedelta()
            return DONE

        scene.shell.servers["timedatectl"] = timedatectl
        yield NO_NAMES


@contextmanager
def wrong_path(scene: Scene) -> Brought:
    """The page for people answers there, with 200."""
    scene.shell(f"export PERAGO_LAKEFS={scene.lakefs.endpoint}/lakefs/api/v1")
    yield NO_NAMES


@contextmanager
def proxy_in_the_way(scene: Scene) -> Brought:
    with front(Front("", refuses_all=True)) as proxy:
        scene.shell(f"export HTTP_PROXY={proxy.endpoint.replace('//', '//user:password@')}")
        yield NO_NAMES


@dataclass(frozen=True)
class StoreScene:
    """A lakeFS that reaches its block store by one way, and signs addresses with another."""

    server: LakefsServer
    behind_lakefs: Proxy
    from_here: Proxy


@pytest.fixture(scope="module")
def store_scene(toxiproxy: ToxiproxyServer) -> Generator[StoreScene]:
    """One for both accidents."""
    with s3_store() as store, ExitStack() as stack:
        behind, here = (stack.enter_context(toxiproxy.proxied(store.endpoint)) for _ in range(2))
        settings = {"blockstore.s3.pre_signed_endpoint": here.endpoint}
        reached = replace(store, endpoint=behind.endpoint)
        with lakefs_server(store=reached, settings=settings) as server:
            yield StoreScene(server, behind, here)


@dataclass(frozen=True)
class Accident:
    """What happens, and the code, the words and the evidence that the doctor prints for it."""

    code: str
    names: str
    happens: Callable[[Scene], AbstractContextManager[Names]]
    status: str = "failure"


ACCIDENTS = {
    "wrong key": Accident("PRG-L007", "the user of the key", wrong_key),
    "no rights": Accident("PRG-L007", "may not create a branch", no_rights),
    "fence missing": Accident("PRG-F020", "{repo} main", fence_missing, "warning"),
    "fence altered": Accident("PRG-F021", "{repo} main", fence_altered),
    "branch dirty": Accident("PRG-F013", "data/draft", branch_dirty),
    "branch protected": Accident("PRG-F014", "{repo} main", branch_protected),
    "clock 10 minutes off": Accident("PRG-L013", "600 s ahead", clock_off),
    "wrong API path": Accident("PRG-L008", "/lakefs/api/v1", wrong_path),
    "proxy in the way": Accident("PRG-L008", "through the proxy", proxy_in_the_way),
}


@pytest.mark.parametrize("name", ACCIDENTS)
def test_the_doctor_names_the_cause_and_its_command_cures(scene: Scene, name: str) -> None:
    accident = ACCIDENTS[name]
    with accident.happens(scene) as names:
        began = perf_counter()
        found = scene.problems()[accident.code]
        assert perf_counter() - began < SECONDS_MAX
        assert found["status"] == accident.status
        assert accident.names.format(repo=scene.repository) in found["evidence"]
        assert found["commands"]
        scene.follow(found, names)
        assert accident.code not in scene.problems(), scene.findings


def test_a_healthy_worker_has_no_problem_and_nothing_is_left(scene: Scene) -> None:
    assert scene.problems() == {}
    listing = scene.ask(
        lambda harness: harness.branches.list_page(scene.repository, "", show_hidden=True)
    )
    assert [branch.name for branch in listing.items] == [MAIN]
    assert scene.ask(lambda harness: harness.tags.list_page(scene.repository, "")).items == ()


def test_a_dirty_branch_is_also_cured_by_the_other_command(scene: Scene) -> None:
    with branch_dirty(scene):
        endpoint, _, reset = scene.problems()["PRG-F013"]["commands"]
        assert scene.shell(endpoint).code == 0  # lakectl does not know Perago's name of the address
        assert scene.shell(f"{reset} --yes").code == 0  # lakectl asks a person
        assert "PRG-F013" not in scene.problems()


def test_hooks_are_switched_on_where_lakefs_starts(scene: Scene, tmp_path: Path) -> None:
    data = DataOfLakeFS(tmp_path)
    with data.lakefs({"LAKEFS_ACTIONS_ENABLED": "false"}) as server:
        scene.use(server)
        scene.create(FILES)
        found = scene.problems()["PRG-F022"]
        assert found["status"] == "failure"
        assert scene.repository in found["evidence"]
        export, verify = found["commands"]
        assert scene.shell(verify).code == 4
    scene.shell(export)
    with data.lakefs({}) as server:  # it starts in the shell in which that was exported
        scene.use(server)
        assert scene.shell(verify).code == 0
        assert scene.problems() == {}


def test_a_store_that_only_lakefs_reaches_is_reached_through_it(
    scene: Scene, store_scene: StoreScene
) -> None:
    scene.use(store_scene.server)
    scene.create(FILES)
    assert scene.problems() == {}
    store_scene.from_here.set_enabled(enabled=False)
    try:
        found = scene.problems()["PRG-L008"]
        assert (found["check"], found["status"]) == ("routes", "warning")
        assert urlsplit(store_scene.from_here.endpoint).netloc in found["evidence"].replace(
            "Cannot", ""
        )
        scene.follow(found, NO_NAMES)
        assert scene.problems() == {}
    finally:
        store_scene.from_here.set_enabled(enabled=True)


def test_a_store_that_stopped_is_named_with_its_own_answer(
    scene: Scene, store_scene: StoreScene
) -> None:
    scene.use(store_scene.server)
    scene.create(FILES)
    assert scene.problems() == {}
    store_scene.behind_lakefs.set_enabled(enabled=False)
    try:
        found = scene.problems()["PRG-L008"]
        # Once in some runs beside other programs lakeFS kept the first request for longer than the
        # doctor waits. Asked again, as its user would, it has the store's answer.
        if "no answer after" in found["evidence"]:
            found = scene.problems()["PRG-L008"]
        assert "connection refused" in found["evidence"]
        (curl,) = found["commands"]
        assert scene.shell(curl).code == 7, "what curl says where it cannot connect"
        store_scene.behind_lakefs.set_enabled(enabled=True)
        assert scene.shell(curl).code == 0
        assert scene.problems() == {}
    finally:
        store_scene.behind_lakefs.set_enabled(enabled=True)


def write_more(workspace: Path, run: int) -> None:
    """What the task function does on a branch that has the first result."""
    (workspace / "more.txt").write_text(f"run {run}")


@pytest.mark.conductor
def test_a_workflow_goes_on_from_the_head_of_a_branch_that_has_moved(
    scene: Scene, conductor_server: ConductorServer, tmp_path: Path
) -> None:
    """One that began before the commit of another writer is refused."""

    @asynccontextmanager
    async def workflows(harness: RealLakeFS) -> AsyncGenerator[AttemptScene]:
        conductor = open_conductor(settings_of(conductor_server))
        yield AttemptScene(harness, conductor, tmp_path, PolicySetting.SETTLED)
        await conductor.close()

    async def refused(harness: RealLakeFS) -> tuple[str, str]:
        async with workflows(harness) as flow:
            await flow.create()
            await flow.start()
            await flow.completed()
            other = await harness.commit_files(flow.repository, MAIN, {"data/kept.txt": b"other"})
            await flow.start()  # from the input of the first
            reason = await flow.failed(AttemptStatus.FAILED_WITH_TERMINAL_ERROR)
            assert "PRG-F002" in reason
            scene.repository = flow.repository
            return flow.workflow, other

    async def published(harness: RealLakeFS) -> None:
        async with workflows(harness) as flow:
            flow.repository, flow.input, flow.body = scene.repository, new_input, write_more
            await flow.start()
            await flow.completed()

    workflow, other = scene.ask(refused)
    scene.shell(f"export PERAGO_CONDUCTOR={conductor_server.api_url}")
    assert "PRG-F002" in scene.shell(f"perago attempts {workflow}").out
    found = scene.problems()["PRG-F002"]
    assert other[:12] in found["evidence"]
    (head,) = scene.follow(found, NO_NAMES)
    new_input = CommitId(head.out.split()[-1])
    scene.ask(published)
    assert "PRG-F002" not in scene.problems()
