"""What `perago doctor` asks of lakeFS, and of one repository there; what it writes is the fence's.

First address, key, version and clocks, then the repository, its fence and protection, and what is
on the target branch. `doctor_rights` tries what an attempt does.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from perago.app.connections import ConductorConnection, LakeFSConnection, Proxies
from perago.app.fence.trust import (
    UNPROTECTED,
    FenceTools,
    FenceVerdict,
    ProtectedMerge,
    verify_fence,
)
from perago.app.inspection import doctor
from perago.domain.attempt_history import CommitRole, commit_role
from perago.domain.commit_metadata import LOGICAL_TASK_KEY
from perago.domain.errors import PublicationRefusedError
from perago.domain.fence import FENCE_VERSION, FenceState
from perago.domain.lakefs import BranchName, CommitId, CommitRecord, RepositoryId
from perago.domain.policy import PolicyRefusal, PolicySetting, asked_shapes, choose_level
from perago.ports.errors import AccessDeniedError, ServiceError, UnavailableError
from perago.ports.installations import ConductorInstallation, LakeFSInstallation, Server

ADDRESS, KEY, VERSION, CLOCKS = "lakeFS address", "lakeFS key", "lakeFS version", "clocks"
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
REPOSITORY, RIGHTS, FENCE, BRANCH = "repository", "rights", "fence", "target branch"
SHOWN_MAX = 5  # of names: enough to recognise what is meant
# Commits below the head in which a publication is looked for, in one request. Where there is none
# among them, the check warns of nothing: others write there all the time, and it would never end.
HISTORY_MAX = 50
KEPT = "kept"  # the message of a commit that a remedy makes
_STATES = {
    FenceState.ABSENT: ("PRG-F020", "has no publication fence"),
    FenceState.ALTERED: ("PRG-F021", "has a fence file that Perago has not written"),
    FenceState.DEAD: ("PRG-F022", "has the fence, but lakeFS merged what it must refuse"),
}


@dataclass(frozen=True, slots=True)
class Target:
    """The branch in question and where it is."""

    repository: RepositoryId
    branch: BranchName
    head: CommitId

    @property
    def names(self) -> dict[str, str]:
        """What stands for the capital words of a remedy."""
        return {"REPO": self.repository, "BRANCH": self.branch, "MESSAGE": KEPT, "REF": self.head}

    def __str__(self) -> str:
        return f"{self.repository} {self.branch}"


async def target_of(subject: doctor.Subject, lakefs: LakeFSInstallation) -> Target:
    """The branch that was named, or the default branch of the repository."""
    repository = subject.repository
    if repository is None:
        raise doctor.NotCheckedError("no --repo was given")
    branch = subject.branch or (await lakefs.repositories.read(repository)).default_branch
    return Target(repository, branch, (await lakefs.branches.head(repository, branch)).commit)


def server_of(installation: LakeFSInstallation | ConductorInstallation) -> Server:
    """The port that asks for the server itself."""
    if installation.server is None:
        raise doctor.NotCheckedError("the adapter does not ask servers for it")
    return installation.server


async def address(subject: doctor.Subject) -> AsyncIterator[doctor.Finding]:
    """Whether a lakeFS API answers there, and on which way; needs no key."""
    connection = subject.lakefs_connection
    try:
        await _greet(subject, connection)
        yield doctor.ok(f"{connection.url} answers, {way_to(connection)}")
    except UnavailableError as error:
        evidence = f"{error}; asked {way_to(connection)}"
        remedy = UNTRUSTED_REMEDY
        if UNTRUSTED not in str(error):
            remedy = await _remedy_of_silence(subject, connection)
        yield doctor.Finding(doctor.Status.FAILURE, evidence, remedy, error.code)


async def _greet(subject: doctor.Subject, connection: LakeFSConnection) -> None:
    async with subject.lakefs(connection) as lakefs:
        await server_of(lakefs).greet()


async def _remedy_of_silence(subject: doctor.Subject, connection: LakeFSConnection) -> str:
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
    return doctor.remedy_of("PRG-L008", {"URL": connection.url})


def _no_proxy(subject: doctor.Subject) -> str:
    """The spelling that is set: of both, the lower case one wins."""
    rows = (row for row in subject.settings.shown() if row.name == "NO_PROXY")
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


async def key(subject: doctor.Subject) -> AsyncIterator[doctor.Finding]:
    """Whether lakeFS knows the key, and which version it is."""
    async with subject.lakefs() as lakefs:
        try:
            facts = await server_of(lakefs).facts()
        except AccessDeniedError as error:
            yield doctor.Finding(doctor.Status.FAILURE, str(error), KEY_REMEDY, error.code)
            return
    yield doctor.ok(f"it belongs to the user {facts.user}")
    yield replace(_version(subject, facts.version), check=VERSION)


def _version(subject: doctor.Subject, found: str) -> doctor.Finding:
    """Whether this release is the one that the tests have run on."""
    said = found or "nothing: the key may not ask (fs:ReadConfig)"
    if found == TESTED_VERSION:
        return doctor.ok(f"{said}, as tested")
    text = f"Perago is tested with {TESTED_VERSION}"
    if found and not doctor.version_numbers(found):
        # Who built it knows what it is, and no command would tell more: nothing to warn of.
        return doctor.ok(f"{said}: a build from source that names no release; {text}")
    text = f"lakeFS says {said}; {text}"
    if doctor.version_numbers(found) > doctor.version_numbers(TESTED_VERSION):
        text += ", which is older: a release may change what hooks and merges do"
    remedy = ""
    if subject.repository is not None:
        target = f"{subject.repository} {subject.branch or 'main'}"
        remedy = f"`perago fence verify {target}` tries what publications need of it"
    return doctor.Finding(doctor.Status.WARNING, text, remedy)


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


async def clocks(subject: doctor.Subject) -> AsyncIterator[doctor.Finding]:
    """Whether this machine and both servers agree on the time."""
    readings = await _readings(subject)
    if not readings:
        raise doctor.NotCheckedError("no server tells its time")
    wrong = [each.seconds for each in readings if each.off > SKEW_SECONDS_MIN]
    # Two servers that are off by the same are right, and this machine is wrong.
    is_ours = len(wrong) > 1 and max(wrong) - min(wrong) < SKEW_SECONDS_MIN
    for each in readings:
        text = f"the clock of {each.name} at {root_of(each.url)}"
        if each.off <= SKEW_SECONDS_MIN:
            yield doctor.ok(f"{text} agrees with this machine, to {each.off + each.doubt:.1f} s")
            continue
        direction = "ahead of" if each.seconds > 0 else "behind"
        yield doctor.Finding(
            doctor.Status.FAILURE if each.off > SKEW_SECONDS_MAX else doctor.Status.WARNING,
            f"{text} is {abs(each.seconds):.0f} s {direction} this machine",
            f"`{KEEP_TIME}` on {'this machine' if is_ours else f'the machine of {each.name}'}"
            " lets it keep its time",
            "PRG-L013",
        )


async def _readings(subject: doctor.Subject) -> list[_Reading]:
    """What each server says that has a clock of its own; one in memory has none."""
    lakefs_at, conductor_at = subject.connections.lakefs, subject.connections.conductor
    found: list[_Reading | None] = []
    if lakefs_at is not None and urlsplit(lakefs_at.url).scheme != "memory":
        async with subject.lakefs() as lakefs:
            found += [await _read(subject, "lakeFS", lakefs_at.url, server_of(lakefs))]
    if conductor_at is not None and urlsplit(conductor_at.url).scheme != "memory":
        # A Conductor that does not answer has a check of its own.
        with suppress(UnavailableError):
            async with subject.conductor() as conductor:
                at = conductor_at.url
                found += [await _read(subject, "Conductor", at, server_of(conductor))]
    return [each for each in found if each is not None]


async def _read(subject: doctor.Subject, name: str, url: str, server: Server) -> _Reading | None:
    before = subject.clock.now()
    said = await server.greet()
    after = subject.clock.now()
    if said is None:
        return None
    # In the middle of the second that is left of it, and of the time that the answer took.
    ahead = (said - before).total_seconds() + 0.5 - (after - before).total_seconds() / 2
    return _Reading(name, url, ahead, doubt=0.5 + (after - before).total_seconds() / 2)


def policies_of(subject: doctor.Subject) -> set[PolicySetting]:
    """The policies that tasks ask for, or the setting alone."""
    setting = PolicySetting(subject.settings.publication_policy)
    wishes = {
        PolicySetting(task.controls.publication) for task in subject.tasks if task.has_workspace
    }
    return {setting if wish is PolicySetting.AUTO else wish for wish in wishes} or {setting}


async def repository(subject: doctor.Subject) -> AsyncIterator[doctor.Finding]:
    """Whether there is such a branch, in a repository that takes writes."""
    async with subject.lakefs() as lakefs:
        if subject.repository is None:
            names = (await lakefs.repositories.list_page(amount=SHOWN_MAX)).items or ("REPO",)
            raise doctor.NotCheckedError(
                "no --repo was given",
                f"`perago doctor --repo {names[0]}` tries rights, fence and routes there",
            )
        target = await target_of(subject, lakefs)
        facts = await lakefs.repositories.read(target.repository)
    text = f"{target} is at {target.head}, in {facts.storage_namespace}"
    if facts.read_only:
        read_only = f"{text}, read-only"
        yield doctor.coded(doctor.Status.FAILURE, read_only, "PRG-L011", target.names)
    else:
        yield doctor.ok(text)


async def fence(subject: doctor.Subject) -> AsyncIterator[doctor.Finding]:
    """Whether the head has the fence, and lakeFS enforces it; tried on scratch branches."""
    async with subject.lakefs() as lakefs:
        target = await target_of(subject, lakefs)
        tools = FenceTools(lakefs, subject.identities)
        at = target.repository, target.branch
        try:
            verdict = await verify_fence(tools, subject.clock, *at, if_protected_only=True)
        except (PublicationRefusedError, ServiceError) as error:
            yield doctor.failure_of(error, target.names)
            return
    policies = policies_of(subject)
    yield _state_of(verdict, target, policies)
    for finding in _weaknesses(verdict, target, policies):
        yield finding


def _state_of(
    verdict: FenceVerdict, target: Target, policies: set[PolicySetting]
) -> doctor.Finding:
    if verdict.state is FenceState.TRUSTED:
        text = f"{target} has version {verdict.version}; lakeFS refused a merge with a wrong head"
        if verdict.protected:
            text += f"; a merge into a branch that is protected alike: {verdict.protected_merge}"
        return doctor.ok(text)
    code, text = _STATES[verdict.state]
    levels = {
        each: choose_level(each, verdict.state, decision_found=False) for each in sorted(policies)
    }
    refused = [each for each, level in levels.items() if isinstance(level, PolicyRefusal)]
    allowed = [f"{each} publishes under {level}" for each, level in levels.items()]
    means = f"policy {', '.join(refused)} publishes nothing" if refused else "; ".join(allowed)
    remedy = doctor.remedy_of(code, target.names)
    if verdict.state is FenceState.DEAD:
        remedy = f"`export LAKEFS_ACTIONS_ENABLED=true` where lakeFS starts; {remedy}"
    status = doctor.Status.FAILURE if refused else doctor.Status.WARNING
    return doctor.Finding(status, f"{target} {text}: {means}", remedy, code)


def _weaknesses(
    verdict: FenceVerdict, target: Target, policies: set[PolicySetting]
) -> Iterator[doctor.Finding]:
    """What is wrong with a branch or its fence beside the state of the fence."""
    install = f"`perago fence install {target}"
    if verdict.protected_merge is ProtectedMerge.REFUSED:
        yield doctor.Finding(
            doctor.Status.FAILURE if verdict.protected else doctor.Status.WARNING,
            "lakeFS refused a merge into a protected branch, and publications are merges",
            f"`lakectl branch-protect list lakefs://{target.repository}` shows the rules; let the"
            f" one of {target.branch} allow merges",
            "PRG-L005",
        )
    if 0 < verdict.version < FENCE_VERSION:
        text = f"version {verdict.version} of the fence lets people merge Perago's private branches"
        yield doctor.Finding(doctor.Status.WARNING, text, f"{install}` replaces it")
    # Under `auto` the fence decides, and with it nothing is reset.
    relocates = any(
        all(shape.relocates for shape in asked_shapes(each).values()) for each in policies
    )
    if verdict.protected and relocates:
        yield doctor.Finding(
            doctor.Status.FAILURE,
            f"{target} is protected, and head-parent replaces publications by hard resets",
            f"{install}` and `export PERAGO_PUBLICATION_POLICY=settled`: settled only merges",
            "PRG-F014",
        )
    if not verdict.protected and not relocates:
        text = f"{target} is not protected: {UNPROTECTED}"
        yield doctor.Finding(doctor.Status.WARNING, text, f"{install} --protect` protects it")


async def branch(subject: doctor.Subject) -> AsyncIterator[doctor.Finding]:
    """What is on the target that stops a publication."""
    async with subject.lakefs() as lakefs:
        target = await target_of(subject, lakefs)
        at = target.repository, target.branch
        dirty = await lakefs.commits.uncommitted_page(*at, amount=SHOWN_MAX)
        walk = await lakefs.commits.first_parents(
            target.repository, target.head, None, commits_max=HISTORY_MAX
        )
    if dirty.items:
        paths = ", ".join(each.path for each in dirty.items)
        more = " and more" if dirty.more else ""
        text = f"{target} has uncommitted objects: {paths}{more}"
        yield doctor.coded(doctor.Status.FAILURE, text, "PRG-F013", target.names)
    others = _above_the_last_publication(walk.commits)
    if others:
        shown = ", ".join(f"{each.commit[:12]} ({each.message})" for each in others[:SHOWN_MAX])
        text = (
            f"{target} has moved past the last publication, by {len(others)} commits of other"
            f" writers: {shown}; workflows that began before cannot publish as settled"
        )
        yield doctor.coded(doctor.Status.WARNING, text, "PRG-F002", target.names)
    if not dirty.items and not others:
        yield doctor.ok(f"{target} is clean, and the newest commit is expected")


def _above_the_last_publication(commits: tuple[CommitRecord, ...]) -> list[CommitRecord]:
    """Commits of others on top of a publication; none where there is no publication."""
    others: list[CommitRecord] = []
    for record in commits:
        role = commit_role(record, frozenset(), frozenset())
        if role is CommitRole.OTHER and LOGICAL_TASK_KEY in record.metadata:
            return others
        if role is CommitRole.FOREIGN:
            others.append(record)
    return []
