"""What `perago doctor` asks of lakeFS before anything is written: address, key, version, clocks.

`doctor_repository` goes on with what needs a repository.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from perago.app.connections import ConductorConnection, LakeFSConnection, Proxies
from perago.app.inspection.doctor import (
    Check,
    Finding,
    NotCheckedError,
    Status,
    Subject,
    ok,
    remedy_of,
)
from perago.ports.errors import AccessDeniedError, ServiceError, UnavailableError
from perago.ports.installations import ConductorInstallation, LakeFSInstallation, Server

ADDRESS, KEY, VERSION, CLOCKS = "lakeFS address", "lakeFS key", "lakeFS version", "clocks"
# Of one question to lakeFS; a merge with a hook takes milliseconds, 5 MiB less than a second.
ANSWER_SECONDS = 5.0
# What every test of a release runs on (docs/reference/support.md).
TESTED_VERSION = "1.86.0"
# A time in an answer is cut off to whole seconds and as old as the answer, and machines that keep
# their time differ by milliseconds. So this is no noise.
SKEW_SECONDS_MIN = 5.0
# A signed address of an object lives for 15 minutes by the clock of the store: a third is lost.
SKEW_SECONDS_MAX = 300.0
# Who may set a key knows one; no command can find it.
KEY_REMEDY = (
    "`perago config show --origin` shows where key and secret come from, and"
    " `export LAKECTL_CREDENTIALS_ACCESS_KEY_ID=KEY_ID"
    " LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY=SECRET` sets others"
)
# In the words of OpenSSL. It is not tried without trust: that would send the key to a stranger.
UNTRUSTED = "CERTIFICATE_VERIFY_FAILED"
UNTRUSTED_REMEDY = (
    "`export PERAGO_TLS_CA_FILE=CA_FILE` trusts a private CA; CA_FILE has its certificate"
)
KEEP_TIME = "timedatectl set-ntp true"


@asynccontextmanager
async def lakefs_of(
    subject: Subject, connection: LakeFSConnection | None = None
) -> AsyncGenerator[LakeFSInstallation]:
    """The ports of the lakeFS in question, which answer soon or not at all."""
    connection = connection or configured(subject)
    opened = subject.open_lakefs(replace(connection, answer_seconds=ANSWER_SECONDS))
    try:
        yield opened
    finally:
        await opened.close()


def configured(subject: Subject) -> LakeFSConnection:
    """The connection to lakeFS, without which nothing here can be asked."""
    if subject.connections.lakefs is None:
        raise NotCheckedError("lakeFS is not configured", remedy_of("PRG-C010", {}))
    return subject.connections.lakefs


def server_of(installation: LakeFSInstallation | ConductorInstallation) -> Server:
    """The port that asks for the server itself."""
    if installation.server is None:
        raise NotCheckedError("the adapter does not ask servers for it")
    return installation.server


async def address(subject: Subject) -> AsyncIterator[Finding]:
    """Whether a lakeFS API answers there, and on which way; needs no key."""
    connection = configured(subject)
    try:
        await _greet(subject, connection)
        yield ok(ADDRESS, f"{connection.url} answers, {way_to(connection)}")
    except UnavailableError as error:
        evidence = f"{error}; asked {way_to(connection)}"
        remedy = UNTRUSTED_REMEDY
        if UNTRUSTED not in str(error):
            remedy = await _remedy_of_silence(subject, connection)
        yield Finding(ADDRESS, Status.FAILURE, evidence, remedy, error.code)


async def _greet(subject: Subject, connection: LakeFSConnection) -> None:
    async with lakefs_of(subject, connection) as lakefs:
        await server_of(lakefs).greet()


async def _remedy_of_silence(subject: Subject, connection: LakeFSConnection) -> str:
    """A command that was tried: without the proxy, or at another path, lakeFS does answer."""
    if connection.proxies(connection.url):
        with suppress(ServiceError):
            await _greet(subject, replace(connection, proxies=Proxies()))
            exempt = ",".join((*connection.proxies.exempt, urlsplit(connection.url).hostname or ""))
            return f"`export {_no_proxy(subject)}={exempt}`: without the proxy lakeFS does answer"
    root = root_of(connection.url)
    if root != connection.url.rstrip("/"):
        with suppress(ServiceError):
            await _greet(subject, replace(connection, url=root))
            return f"`export PERAGO_LAKEFS={root}`: there lakeFS does answer"
    return remedy_of("PRG-L008", {"URL": connection.url})


def _no_proxy(subject: Subject) -> str:
    """The spelling that is set: of both, the lower case one wins."""
    rows = (row for row in subject.settings.shown() if row.variable.name == "NO_PROXY")
    return "no_proxy" if any(row.origin.endswith(": no_proxy") for row in rows) else "NO_PROXY"


def root_of(url: str) -> str:
    """An address without its path and password."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def way_to(connection: LakeFSConnection | ConductorConnection) -> str:
    """Proxy and trust as they are in force for an address."""
    parts, proxies = urlsplit(connection.url), connection.proxies
    if parts.scheme not in {"http", "https"}:
        return "not over HTTP"
    proxy, exempt = proxies(connection.url), ",".join(proxies.exempt)
    way = f"through the proxy {proxy.rpartition('@')[2]}" if proxy else "without a proxy"
    if exempt:
        way += f" (NO_PROXY={exempt})"
    if parts.scheme != "https":
        return f"{way}, without TLS"
    if not connection.verify_tls:
        return f"{way}, over TLS that trusts everyone (PERAGO_TLS_VERIFY=false)"
    file = "" if connection.ca_file is None else f" and of {connection.ca_file}"
    return f"{way}, over TLS that trusts the CAs of this machine{file}"


async def key(subject: Subject) -> AsyncIterator[Finding]:
    """Whether lakeFS knows the key, and which version it is."""
    async with lakefs_of(subject) as lakefs:
        try:
            facts = await server_of(lakefs).facts()
        except AccessDeniedError as error:
            yield Finding(KEY, Status.FAILURE, str(error), KEY_REMEDY, error.code)
            return
    yield ok(KEY, f"it belongs to the user {facts.user}")
    said = facts.version or "nothing: the key may not ask (fs:ReadConfig)"
    if facts.version == TESTED_VERSION:
        yield ok(VERSION, f"{said}, as tested")
        return
    if facts.version and not _numbers(facts.version):
        # Who built it knows what it is, and no command would tell more: nothing to warn of.
        tested = f"Perago is tested with {TESTED_VERSION}"
        yield ok(VERSION, f"{said}: a build from source that names no release; {tested}")
        return
    text = f"lakeFS says {said}; Perago is tested with {TESTED_VERSION}"
    if _numbers(facts.version) > _numbers(TESTED_VERSION):
        text += ", which is older: a release may change what hooks and merges do"
    remedy = ""
    if subject.repository is not None:
        target = f"{subject.repository} {subject.branch or 'main'}"
        remedy = f"`perago fence verify {target}` tries what publications need of it"
    yield Finding(VERSION, Status.WARNING, text, remedy)


def _numbers(version: str) -> tuple[int, ...]:
    """A version in order; nothing for a build of one's own, which says `dev`."""
    numbers = version.split("-", maxsplit=1)[0].removeprefix("v").split(".")
    return tuple(map(int, numbers)) if all(each.isdecimal() for each in numbers) else ()


@dataclass(frozen=True, slots=True)
class _Reading:
    """What the clock of a server said, beside ours around it."""

    name: str
    url: str
    seconds: float  # how far it is ahead
    doubt: float

    @property
    def off(self) -> float:
        """How far off at least."""
        return max(0.0, abs(self.seconds) - self.doubt)


async def clocks(subject: Subject) -> AsyncIterator[Finding]:
    """Whether this machine and both servers agree on the time."""
    readings = [each async for each in _readings(subject)]
    if not readings:
        raise NotCheckedError("no server tells its time")
    wrong = [each.seconds for each in readings if each.off > SKEW_SECONDS_MIN]
    # Two servers that are off by the same are right, and this machine is wrong.
    is_ours = len(wrong) > 1 and max(wrong) - min(wrong) < SKEW_SECONDS_MIN
    for each in readings:
        text = f"the clock of {each.name} at {root_of(each.url)}"
        if each.off <= SKEW_SECONDS_MIN:
            yield ok(CLOCKS, f"{text} agrees with this machine, to {each.off + each.doubt:.1f} s")
            continue
        direction = "ahead of" if each.seconds > 0 else "behind"
        yield Finding(
            CLOCKS,
            Status.FAILURE if each.off > SKEW_SECONDS_MAX else Status.WARNING,
            f"{text} is {abs(each.seconds):.0f} s {direction} this machine",
            f"`{KEEP_TIME}` on {'this machine' if is_ours else f'the machine of {each.name}'}"
            " lets it keep its time",
            "PRG-L013",
        )


async def _readings(subject: Subject) -> AsyncIterator[_Reading]:
    """What each server says that has a clock of its own; one in memory has none."""
    lakefs_at, conductor_at = subject.connections.lakefs, subject.connections.conductor
    if lakefs_at is not None and urlsplit(lakefs_at.url).scheme != "memory":
        async with lakefs_of(subject) as lakefs:
            reading = await _read(subject, "lakeFS", lakefs_at.url, server_of(lakefs))
        if reading is not None:
            yield reading
    if conductor_at is not None and urlsplit(conductor_at.url).scheme != "memory":
        conductor, reading = subject.open_conductor(conductor_at), None
        try:
            # A Conductor that does not answer has a check of its own.
            with suppress(UnavailableError):
                reading = await _read(subject, "Conductor", conductor_at.url, server_of(conductor))
        finally:
            await conductor.close()
        if reading is not None:
            yield reading


async def _read(subject: Subject, name: str, url: str, server: Server) -> _Reading | None:
    before = subject.clock.now()
    said = await server.greet()
    after = subject.clock.now()
    if said is None:
        return None
    # In the middle of the second that is left of it, and of the time that the answer took.
    ahead = (said - before).total_seconds() + 0.5 - (after - before).total_seconds() / 2
    return _Reading(name, url, ahead, doubt=0.5 + (after - before).total_seconds() / 2)


LAKEFS_CHECKS = (
    # Three tries where the first one fails: as it is, without the proxy, without the path.
    Check(ADDRESS, address, seconds=4 * ANSWER_SECONDS, server="lakefs"),
    Check(KEY, key, needs=(ADDRESS,), server="lakefs"),
)
CLOCK_CHECKS = (Check(CLOCKS, clocks, needs=(ADDRESS,), server="lakefs"),)
