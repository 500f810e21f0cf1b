"""What `perago doctor` asks of one repository: the fence, its protection, and the target branch."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

from perago.app.fence.install import FenceTools
from perago.app.fence.trust import Canary
from perago.app.fence.verify import (
    LOOKS_MAX,
    PAUSE_SECONDS,
    UNPROTECTED,
    FenceVerdict,
    ProtectedMerge,
    verify_fence,
)
from perago.app.inspection.doctor import (
    CHECK_SECONDS,
    Check,
    Finding,
    NotCheckedError,
    Status,
    Subject,
    failure_of,
    ok,
    remedy_of,
)
from perago.app.inspection.doctor_lakefs import KEY, lakefs_of
from perago.domain.attempt_history import CommitRole, commit_role
from perago.domain.commit_metadata import LOGICAL_TASK_KEY
from perago.domain.errors import PublicationRefusedError
from perago.domain.fence import FENCE_VERSION, FenceState
from perago.domain.logical_execution import BranchName, CommitId, CommitRecord, RepositoryId
from perago.domain.policy import (
    PolicyRefusal,
    PolicySetting,
    asked_shapes,
    choose_level,
)
from perago.ports.errors import ServiceError
from perago.ports.installations import LakeFSInstallation

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


async def target_of(subject: Subject, lakefs: LakeFSInstallation) -> Target:
    """The branch that was named, or the default branch of the repository."""
    repository = subject.repository
    if repository is None:
        raise NotCheckedError("no --repo was given")
    branch = subject.branch or (await lakefs.repositories.read(repository)).default_branch
    return Target(repository, branch, (await lakefs.branches.head(repository, branch)).commit)


def policies_of(subject: Subject) -> set[PolicySetting]:
    """The policies that tasks ask for, or the setting alone."""
    setting = PolicySetting(subject.settings.publication_policy)
    wishes = {
        PolicySetting(task.controls.publication) for task in subject.tasks if task.has_workspace
    }
    return {setting if wish is PolicySetting.AUTO else wish for wish in wishes} or {setting}


async def repository(subject: Subject) -> AsyncIterator[Finding]:
    """Whether there is such a branch, in a repository that takes writes."""
    async with lakefs_of(subject) as lakefs:
        if subject.repository is None:
            names = (await lakefs.repositories.list_page(amount=SHOWN_MAX)).names or ("REPO",)
            raise NotCheckedError(
                "no --repo was given",
                f"`perago doctor --repo {names[0]}` tries rights, fence and routes there",
            )
        target = await target_of(subject, lakefs)
        facts = await lakefs.repositories.read(target.repository)
    text = f"{target} is at {target.head}, in {facts.storage_namespace}"
    if facts.read_only:
        remedy = remedy_of("PRG-L011", target.names)
        yield Finding(REPOSITORY, Status.FAILURE, f"{text}, read-only", remedy, "PRG-L011")
    else:
        yield ok(REPOSITORY, text)


async def fence(subject: Subject) -> AsyncIterator[Finding]:
    """Whether the head has the fence, and lakeFS enforces it; tried on scratch branches."""
    async with lakefs_of(subject) as lakefs:
        target = await target_of(subject, lakefs)
        names = subject.identities
        tools = FenceTools(lakefs.branches, lakefs.commits, lakefs.objects, names)
        canary = Canary(branches=lakefs.branches, commits=lakefs.commits, identities=names)
        at = target.repository, target.branch
        try:
            verdict = await verify_fence(tools, canary, subject.clock, *at, if_protected_only=True)
        except (PublicationRefusedError, ServiceError) as error:
            yield failure_of(FENCE, error, target.names)
            return
    policies = policies_of(subject)
    yield _state_of(verdict, target, policies)
    for finding in _weaknesses(verdict, target, policies):
        yield finding


def _state_of(verdict: FenceVerdict, target: Target, policies: set[PolicySetting]) -> Finding:
    if verdict.state is FenceState.TRUSTED:
        text = f"{target} has version {verdict.version}; lakeFS refused a merge with a wrong head"
        if verdict.protected:
            text += f"; a merge into a branch that is protected alike: {verdict.protected_merge}"
        return ok(FENCE, text)
    code, text = _STATES[verdict.state]
    levels = {
        each: choose_level(each, verdict.state, decision_found=False) for each in sorted(policies)
    }
    refused = [each for each, level in levels.items() if isinstance(level, PolicyRefusal)]
    allowed = [f"{each} publishes under {level}" for each, level in levels.items()]
    means = f"policy {', '.join(refused)} publishes nothing" if refused else "; ".join(allowed)
    remedy = remedy_of(code, target.names)
    if verdict.state is FenceState.DEAD:
        remedy = f"`export LAKEFS_ACTIONS_ENABLED=true` where lakeFS starts; {remedy}"
    status = Status.FAILURE if refused else Status.WARNING
    return Finding(FENCE, status, f"{target} {text}: {means}", remedy, code)


def _weaknesses(
    verdict: FenceVerdict, target: Target, policies: set[PolicySetting]
) -> Iterator[Finding]:
    """What is wrong with a branch or its fence beside the state of the fence."""
    install = f"`perago fence install {target}"
    if verdict.protected_merge is ProtectedMerge.REFUSED:
        yield Finding(
            FENCE,
            Status.FAILURE if verdict.protected else Status.WARNING,
            "lakeFS refused a merge into a protected branch, and publications are merges",
            f"`lakectl branch-protect list lakefs://{target.repository}` shows the rules; let the"
            f" one of {target.branch} allow merges",
            "PRG-L005",
        )
    if 0 < verdict.version < FENCE_VERSION:
        text = f"version {verdict.version} of the fence lets people merge Perago's private branches"
        yield Finding(FENCE, Status.WARNING, text, f"{install}` replaces it")
    # Under `auto` the fence decides, and with it nothing is reset.
    relocates = any(
        all(shape.relocates for shape in asked_shapes(each).values()) for each in policies
    )
    if verdict.protected and relocates:
        yield Finding(
            FENCE,
            Status.FAILURE,
            f"{target} is protected, and head-parent replaces publications by hard resets",
            f"{install}` and `export PERAGO_PUBLICATION_POLICY=settled`: settled only merges",
            "PRG-F014",
        )
    if not verdict.protected and not relocates:
        text = f"{target} is not protected: {UNPROTECTED}"
        yield Finding(FENCE, Status.WARNING, text, f"{install} --protect` protects it")


async def branch(subject: Subject) -> AsyncIterator[Finding]:
    """What is on the target that stops a publication."""
    async with lakefs_of(subject) as lakefs:
        target = await target_of(subject, lakefs)
        at = target.repository, target.branch
        dirty = await lakefs.commits.uncommitted_page(*at, amount=SHOWN_MAX)
        walk = await lakefs.commits.first_parents(
            target.repository, target.head, None, commits_max=HISTORY_MAX
        )
    if dirty.changes:
        paths = ", ".join(each.path for each in dirty.changes)
        more = " and more" if dirty.more else ""
        text = f"{target} has uncommitted objects: {paths}{more}"
        remedy = remedy_of("PRG-F013", target.names)
        yield Finding(BRANCH, Status.FAILURE, text, remedy, "PRG-F013")
    others = _above_the_last_publication(walk.commits)
    if others:
        shown = ", ".join(f"{each.commit[:12]} ({each.message})" for each in others[:SHOWN_MAX])
        yield Finding(
            BRANCH,
            Status.WARNING,
            f"{target} has moved past the last publication, by {len(others)} commits of other"
            f" writers: {shown}; workflows that began before cannot publish as settled",
            remedy_of("PRG-F002", target.names),
            "PRG-F002",
        )
    if not dirty.changes and not others:
        yield ok(BRANCH, f"{target} is clean, and the newest commit is expected")


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


REPOSITORY_CHECKS = (Check(REPOSITORY, repository, needs=(KEY,), server="lakefs"),)
FENCE_CHECKS = (
    # lakeFS needs some seconds to enforce the protection rule that is tried.
    Check(
        FENCE,
        fence,
        needs=(REPOSITORY, RIGHTS),
        seconds=CHECK_SECONDS + LOOKS_MAX * PAUSE_SECONDS,
        server="lakefs",
    ),
    Check(BRANCH, branch, needs=(REPOSITORY,), server="lakefs"),
)
