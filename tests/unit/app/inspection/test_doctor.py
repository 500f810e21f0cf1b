"""What `perago doctor` makes of its checks, and what those of lakeFS say, on servers in memory."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from perago.adapters.filesystem.attempt_directory import LocalAttemptDirectories
from perago.adapters.memory.conductor_server import MemoryConductor
from perago.adapters.memory.installations import (
    RepositoryBuilder,
    conductor_installation,
    lakefs_installation,
)
from perago.adapters.memory.lakefs import MemoryLakeFS
from perago.adapters.memory.system import VirtualClock, WorkerHandle
from perago.adapters.system import AsyncioConcurrency, SystemIdentities
from perago.app.connections import LakeFSConnection, connections_of
from perago.app.inspection import doctor
from perago.app.inspection.doctor import Check, Finding, NotCheckedError, Status, Subject, ok
from perago.app.inspection.doctor_rights import LAKEFS_CHECKS
from perago.app.settings.settings import load_settings
from perago.domain.commit_metadata import LOGICAL_TASK_KEY
from perago.domain.fence import FENCE_FILE, FENCE_FILE_1
from perago.domain.lakefs import BranchName, RepositoryId
from perago.domain.outcome import MergeRefused, RefusedByHook
from perago.domain.paths import FENCE_PATH
from perago.domain.text import Secrets
from perago.ports.errors import AccessDeniedError, OutcomeUnknownError, UnavailableError
from perago.ports.installations import LakeFSInstallation, ServerFacts
from perago.testing.fault_injector import faulty_installation
from perago.testing.faults import Call
from perago.testing.servers import Send

SECRET = "0123456789-hush"
ADDRESSES = {
    "PERAGO_LAKEFS": "http://lakefs:8000",
    "PERAGO_CONDUCTOR": "http://conductor:8080/api",
    "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": "key-of-a-worker",
    "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": SECRET,
}
*OF_LAKEFS, ROUTES = LAKEFS_CHECKS
ADDRESS, KEY, CLOCKS, REPOSITORY, RIGHTS, *_ = LAKEFS_CHECKS
ALTERED = FENCE_FILE.replace(b"if expected ~= nil then", b"if false then")
NOW = datetime(2026, 11, 19, 20, tzinfo=UTC)


@dataclass
class Refusals:
    """Stands before the ports and refuses some calls, by name."""

    errors: dict[str, Exception] = field(default_factory=dict[str, Exception])
    answers: dict[str, object] = field(default_factory=dict[str, object])

    async def passes(self, call: Call, send: Send) -> Any:  # noqa: ANN401 - a port's answer
        """Let one call through, or not."""
        if call.operation in self.errors:
            raise self.errors[call.operation]
        if call.operation in self.answers:
            return self.answers[call.operation]
        return await send()


class Harness:
    """A lakeFS, a Conductor and a machine, each with a clock of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.ahead = {"lakefs": timedelta(), "conductor": timedelta()}
        self.lakefs = MemoryLakeFS(VirtualClock(NOW))
        self.songs = RepositoryBuilder(self.lakefs, "songs")
        self.refusals = Refusals()
        self.opened: list[LakeFSConnection] = []
        self.away: set[str] = set()

    def open_lakefs(self, connection: LakeFSConnection | None) -> LakeFSInstallation:
        """The lakeFS, for addresses at which it is."""
        assert connection is not None
        self.opened.append(connection)
        if connection.url in self.away or connection.proxies(connection.url) in self.away:
            raise UnavailableError(f"{connection.url} does not answer")
        installation = lakefs_installation(self.lakefs, WorkerHandle())
        return faulty_installation(installation, self.refusals)

    def subject(self, repository: str | None = "songs", **variables: str) -> Subject:
        """What is examined."""
        settings = load_settings(cwd=self.root, process_env={**ADDRESSES, **variables})
        clock, concurrency = VirtualClock(NOW), AsyncioConcurrency()
        self.lakefs.clock = VirtualClock(NOW + self.ahead["lakefs"])
        conductor = MemoryConductor(VirtualClock(NOW + self.ahead["conductor"]))
        return Subject(
            connections=connections_of(settings),
            open_lakefs=self.open_lakefs,
            open_conductor=lambda _: conductor_installation(conductor, WorkerHandle()),
            clock=clock,
            identities=SystemIdentities(),
            concurrency=concurrency,
            directories=LocalAttemptDirectories(self.root, clock, concurrency),
            installed_spark=lambda: ("none", "none"),
            repository=None if repository is None else RepositoryId(repository),
            branch=None if repository is None else BranchName("main"),
        )


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    """A repository with the fence."""
    made = Harness(tmp_path)
    made.songs.commit({"a": b"1", FENCE_PATH: FENCE_FILE})
    return made


async def found(
    subject: Subject, checks: Sequence[Check] = OF_LAKEFS, slow: list[str] | None = None
) -> list[Finding]:
    """All findings."""
    heard = [] if slow is None else slow
    examination = doctor.Examination(subject, Secrets.of([SECRET]), heard.append)
    return [each async for each in examination.run(checks)]


async def problem(subject: Subject, checks: Sequence[Check] = OF_LAKEFS) -> Finding:
    """The first finding with a code."""
    return next(each for each in await found(subject, checks) if each.code)


def check(name: str, *said: Finding | Exception, needs: tuple[str, ...] = ()) -> Check:
    """One that says what it was given."""

    async def ask(_: Subject) -> AsyncIterator[Finding]:
        for each in said:
            if isinstance(each, Exception):
                raise each
            yield each

    return Check(name, ask, needs)


FAILURE = Finding(Status.FAILURE, "broken")


async def test_a_check_without_what_it_needs_names_the_first_failure(harness: Harness) -> None:
    checks = (
        check("first", FAILURE),
        check("second", ok(""), needs=("first",)),
        check("third", ok(""), needs=("second",)),
        check("other", ok("is asked")),
    )
    _, second, third, other = await found(harness.subject(), checks)
    assert second.evidence == third.evidence == "not checked, because first failed"
    assert {second.status, third.status} == {Status.WARNING}
    assert other.status is Status.OK


async def test_what_was_not_asked_for_stops_no_later_check(harness: Harness) -> None:
    checks = (
        check("first", NotCheckedError("nothing was given", "`perago doctor`")),
        check("second", ok("is asked"), needs=("first",)),
    )
    first, second = await found(harness.subject(), checks)
    assert (first.status, first.commands) == (Status.WARNING, ("perago doctor",))
    assert second.status is Status.OK


async def test_a_check_that_breaks_keeps_what_it_found_and_gets_the_remedy_of_its_error(
    harness: Harness,
) -> None:
    broken = check("first", ok("so far"), AccessDeniedError("no"))
    so_far, denied = await found(harness.subject(), (broken,))
    assert so_far.evidence == "so far"
    assert (denied.status, denied.code) == (Status.FAILURE, "PRG-L007")
    assert denied.commands == ("perago config show --origin",)


async def test_a_check_ends_in_its_time_and_a_slow_one_is_reported(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "SLOW_SECONDS", 0.0)

    async def never(_: Subject) -> AsyncIterator[Finding]:
        await asyncio.Event().wait()
        yield ok("")

    slow: list[str] = []
    checks = (Check("never", never, seconds=0.05, server="lakefs"),)
    (late,) = await found(harness.subject(), checks, slow)
    assert slow == ["never"]
    assert (late.status, late.code) == (Status.FAILURE, "PRG-L008")
    assert "curl -sS http://lakefs:8000" in late.commands


async def test_no_secret_and_no_password_is_printed(harness: Harness) -> None:
    told = Finding(Status.WARNING, f"{SECRET} http://me:hidden@proxy:1", f"`x {SECRET}`")
    (shown,) = await found(harness.subject(), (check("first", told),))
    assert (shown.evidence, shown.remedy) == ("*** http://***@proxy:1", "`x ***`")


async def test_a_healthy_repository_has_no_problem_and_nothing_is_left(harness: Harness) -> None:
    harness.songs.protect()
    findings = await found(harness.subject(), LAKEFS_CHECKS)
    assert [each for each in findings if each.status is not Status.OK] == []
    assert harness.songs.branch_names() == {"main"}
    assert harness.songs.tags() == {}
    assert any("5 MiB up" in each.evidence for each in findings)
    assert any("protected alike: passes" in each.evidence for each in findings)


async def test_without_a_repository_one_that_is_there_is_named(harness: Harness) -> None:
    findings = await found(harness.subject(None))
    skipped = [each for each in findings if "not checked" in each.evidence]
    assert [each.check for each in skipped] == ["repository", "rights", "fence", "target branch"]
    assert skipped[0].commands == ("perago doctor --repo songs",)


async def test_a_repository_that_is_not_there_or_read_only(harness: Harness) -> None:
    assert (await problem(harness.subject("nowhere"))).code == "PRG-L002"
    harness.songs.make_read_only()
    assert (await problem(harness.subject())).code == "PRG-L011"


@pytest.mark.parametrize(
    ("ahead", "status", "words"),
    [
        ({"lakefs": 600}, Status.FAILURE, "the machine of lakeFS"),
        ({"conductor": -30}, Status.WARNING, "the machine of Conductor"),
        ({"lakefs": 61, "conductor": 60}, Status.WARNING, "this machine"),
        ({"lakefs": 4}, Status.OK, ""),
    ],
)
async def test_a_clock_that_is_off(
    harness: Harness, ahead: Mapping[str, int], status: Status, words: str
) -> None:
    harness.ahead |= {name: timedelta(seconds=seconds) for name, seconds in ahead.items()}
    findings = await found(harness.subject(), [CLOCKS])
    worst = max(findings, key=lambda each: list(Status).index(each.status))
    assert worst.status is status
    assert words in worst.remedy
    if words:
        assert worst.commands == ("timedatectl set-ntp true",)


@pytest.mark.parametrize(
    ("variables", "away", "command"),
    [
        ({"PERAGO_LAKEFS": "http://lakefs:8000/x"}, "http://lakefs:8000/x", "PERAGO_LAKEFS=http:"),
        ({"HTTP_PROXY": "http://p:1"}, "http://p:1", "export NO_PROXY=lakefs"),
        (
            {"http_proxy": "http://p:1", "no_proxy": "a.b"},
            "http://p:1",
            "export no_proxy=a.b,lakefs",
        ),
        ({}, "http://lakefs:8000", "perago config show --origin"),
    ],
)
async def test_the_command_for_an_address_that_is_silent_was_tried(
    harness: Harness, variables: Mapping[str, str], away: str, command: str
) -> None:
    harness.away = {away}
    silent = await problem(harness.subject(**variables))
    assert (silent.check, silent.code) == ("lakeFS address", "PRG-L008")
    assert command in silent.remedy


async def test_a_wrong_key_is_no_missing_right(harness: Harness) -> None:
    harness.refusals.errors = {"server.facts": AccessDeniedError("no such key")}
    unknown = await problem(harness.subject())
    assert (unknown.check, unknown.code) == ("lakeFS key", "PRG-L007")
    assert "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY=SECRET" in unknown.commands[1]
    harness.refusals.errors = {"branches.create": AccessDeniedError("insufficient")}
    denied = await problem(harness.subject())
    assert denied.check == "rights"
    assert "may not create a branch" in denied.evidence


@pytest.mark.parametrize(
    ("policy", "fence", "status", "code"),
    [
        ("auto", None, Status.WARNING, "PRG-F020"),
        ("settled", None, Status.FAILURE, "PRG-F020"),
        ("auto", ALTERED, Status.FAILURE, "PRG-F021"),
        ("head-parent", ALTERED, Status.WARNING, "PRG-F021"),
    ],
)
async def test_what_a_fence_means_depends_on_the_policy(
    harness: Harness, policy: str, fence: bytes | None, status: Status, code: str
) -> None:
    harness.songs.commit({FENCE_PATH: fence})
    broken = await problem(harness.subject(PERAGO_PUBLICATION_POLICY=policy))
    assert (broken.status, broken.code) == (status, code)
    assert broken.commands == ("perago fence install songs main",)


async def test_hooks_that_are_off_are_switched_on_first(harness: Harness) -> None:
    harness.lakefs.actions_enabled = False
    dead = await problem(harness.subject())
    assert dead.code == "PRG-F022"
    assert dead.commands == (
        "export LAKEFS_ACTIONS_ENABLED=true",
        "perago fence verify songs main",
    )


async def test_an_old_fence_and_an_open_branch_are_warnings(harness: Harness) -> None:
    harness.songs.commit({FENCE_PATH: FENCE_FILE_1})
    warned = [each for each in await found(harness.subject()) if each.status is Status.WARNING]
    assert [each.commands for each in warned] == [
        ("perago fence install songs main",),
        ("perago fence install songs main --protect",),
    ]


async def test_a_protected_branch_refuses_what_head_parent_does(harness: Harness) -> None:
    harness.songs.protect()
    refused = await problem(harness.subject(PERAGO_PUBLICATION_POLICY="head-parent"))
    assert (refused.status, refused.code) == (Status.FAILURE, "PRG-F014")
    assert refused.commands[1] == "export PERAGO_PUBLICATION_POLICY=settled"


async def test_a_dirty_branch_names_the_objects_and_tells_lakectl_its_server(
    harness: Harness,
) -> None:
    harness.songs.write("draft", b"1")
    dirty = await problem(harness.subject())
    assert dirty.code == "PRG-F013"
    assert "draft" in dirty.evidence
    assert dirty.commands == (
        "export LAKECTL_SERVER_ENDPOINT_URL=http://lakefs:8000",
        "lakectl commit lakefs://songs/main -m kept",
        "lakectl branch reset lakefs://songs/main",
    )


async def test_commits_of_others_above_a_publication_are_named(harness: Harness) -> None:
    harness.songs.commit({"b": b"1"}, metadata={LOGICAL_TASK_KEY: "w/t/1"})
    assert all(each.code == "" for each in await found(harness.subject()))
    other = harness.songs.commit({"c": b"1"}, message="by hand")
    moved = await problem(harness.subject())
    assert (moved.status, moved.code) == (Status.WARNING, "PRG-F002")
    assert f"{other[:12]} (by hand)" in moved.evidence
    assert moved.commands == ("perago head songs main",)


async def test_the_answer_of_a_block_store_is_shown_and_its_address_is_asked(
    harness: Harness,
) -> None:
    said = 'status 500: operation error S3: PutObject, Put "http://store:9000/b/k": no route'
    harness.refusals.errors = {"objects.upload": OutcomeUnknownError(said)}
    stopped = await problem(harness.subject())
    assert (stopped.check, stopped.code) == ("rights", "PRG-L008")
    assert stopped.commands == ("curl -sS http://store:9000",)


async def test_a_refused_merge_is_a_right_that_is_missing(harness: Harness) -> None:
    harness.refusals.answers = {"branches.merge": MergeRefused("status 403: not for you")}
    denied = await problem(harness.subject(), [ADDRESS, KEY, REPOSITORY, RIGHTS])
    assert "may not merge" in denied.evidence
    harness.refusals.answers = {"branches.merge": RefusedByHook("hook of others: no owner")}
    refused = await problem(harness.subject(), [ADDRESS, KEY, REPOSITORY, RIGHTS])
    assert (refused.code, refused.evidence) == ("PRG-F010", "hook of others: no owner")


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ("1.86.0", Status.OK),
        ("1.87.2", Status.WARNING),
        ("dev", Status.OK),
        ("", Status.WARNING),
    ],
)
async def test_a_version_is_compared_with_the_tested_one(
    harness: Harness, said: str, status: Status
) -> None:
    harness.refusals.answers = {"server.facts": ServerFacts(said, "worker")}
    version = next(
        each for each in await found(harness.subject(), [ADDRESS, KEY]) if "version" in each.check
    )
    assert version.status is status
    assert ("older" in version.evidence) is (said == "1.87.2")
    assert ("names no release" in version.evidence) is (said == "dev")


async def test_a_store_that_signs_is_tried_by_its_addresses_too(harness: Harness) -> None:
    harness.refusals.answers = {"server.facts": ServerFacts("1.86.0", "worker", signs=True)}
    moved = await found(harness.subject(), [ROUTES])
    assert [each.evidence.split(":")[0] for each in moved] == [
        "through lakeFS",
        "by signed addresses of the block store",
    ]
    assert {each.route for each in harness.opened[1:]} == {"api", "presigned"}
    (only,) = await found(harness.subject(PERAGO_TRANSFER_ROUTE="api"), [ROUTES])
    assert only.evidence.startswith("through lakeFS")


async def test_a_certificate_that_is_not_trusted_is_not_asked_again(harness: Harness) -> None:
    """Without trust it would be asked with the key."""
    said = UnavailableError("reach lakefs: [SSL: CERTIFICATE_VERIFY_FAILED] self-signed")
    harness.refusals.errors = {"server.greet": said}
    untrusted = await problem(harness.subject(HTTP_PROXY="http://p:1"))
    assert untrusted.commands == ("export PERAGO_TLS_CA_FILE=CA_FILE",)
    assert len(harness.opened) == 1


@pytest.mark.parametrize("scheme", ["", "http://"])
async def test_the_password_of_a_proxy_is_not_shown(harness: Harness, scheme: str) -> None:
    findings = await found(harness.subject(HTTP_PROXY=f"{scheme}me:hidden@p:1"), [ADDRESS, KEY])
    assert any("through the proxy p:1" in each.evidence for each in findings)
    assert not any("hidden" in each.evidence for each in findings)
