"""What `perago doctor` asks of Conductor, in this order: from the address to who polls a task."""

import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from shlex import quote
from typing import cast
from urllib.parse import urlsplit, urlunsplit

from perago.app.authoring.task_definition import TaskDefinition, build_taskdef, taskdef_differences
from perago.app.connections import ConductorConnection
from perago.app.inspection import doctor
from perago.app.inspection.doctor_host import old_workers_here
from perago.app.inspection.doctor_lakefs import REPOSITORY, way_to
from perago.app.runs.finish import served_tasks
from perago.domain.attempt import LEASE_FRACTION, AttemptRecord, as_mapping
from perago.domain.error_codes import filled
from perago.ports.conductor import LastPoll
from perago.ports.errors import ServiceError, UnavailableError
from perago.ports.system import Clock

ADDRESS = "Conductor address"
VERSION = "Conductor version"
TASKDEFS = "TaskDefs"
LEASES = "response time-outs"
FORKS = "forks"
POLLS = "workers"

TESTED_VERSION = (3, 32, 3)
# A name that no task has: what is read does not matter, only whether these keys may read.
_NO_TASK = "perago-doctor"
# One heartbeat may be lost. Its answer is waited for 15 s, after a third of the lease, and the next
# one needs another third.
LEASE_SECONDS_MIN = LEASE_FRACTION * 15
# A worker with a free slot polls each second. One that pauses, because a service fails, looks again
# after a minute at most.
POLLED_SECONDS = 60.0
# Conductor keeps the last poll only. Workers side by side are seen by looking several times: for
# 1.5 s, because each polls once a second, and four times a second, because a later poll hides the
# one before. Every look is a request for each task.
LOOKS, BETWEEN_LOOKS_SECONDS = 7, 0.25
# 0.6.1 polls under its prefix, letters and digits, with this word. Ours have host and number too.
OLD_SUFFIX = "Broker"
_OLD_WORKER = re.compile(rf"[A-Za-z0-9]+{OLD_SUFFIX}")
# The message that lakeFS gives a merge without one, from a staging branch. Ours have their own.
_OLD_PUBLICATION = re.compile(r"Merge 'perago-staging-.+' into '.+'")
# One request. A worker of 0.6.1 is overlooked only where others make a hundred commits for each of
# its own.
COMMITS_READ = 100
# An older publication proves little, because its worker may have been stopped since. A day finds
# the worker of a workflow that runs once a day.
OLD_AGE_MAX = timedelta(days=1)


async def address(subject: doctor.Subject) -> AsyncIterator[doctor.Finding]:
    """Whether a Conductor API answers, and whether it takes the key."""
    connection = subject.connections.conductor
    if connection is None:
        text = "Conductor is not configured: no worker can start"
        yield doctor.coded(doctor.Status.WARNING, text, "PRG-C011", {})
        return
    async with subject.conductor() as conductor:
        try:
            await conductor.queue.check()
        except UnavailableError as error:
            yield await _unreached(subject, connection, error)
            return
        await conductor.definitions.read(_NO_TASK)
    key = "without a key" if connection.auth_key is None else "with a key"
    yield doctor.ok(f"{connection.url}, {key}, {way_to(connection)}")


async def _unreached(
    subject: doctor.Subject, connection: ConductorConnection, error: UnavailableError
) -> doctor.Finding:
    """Name the address where the API answers, if only its path is wrong."""
    parts = urlsplit(connection.url)
    for path in dict.fromkeys((f"{parts.path.rstrip('/')}/api", "/api")):
        url = urlunsplit((parts.scheme, parts.netloc, path, "", ""))
        try:
            async with subject.conductor(replace(connection, url=url)) as other:
                await other.queue.check()
        except ServiceError:
            continue
        remedy = f"`export PERAGO_CONDUCTOR={quote(url)}`: there the API answers."
        return doctor.Finding(doctor.Status.FAILURE, str(error), remedy, error.code)
    return doctor.failure_of(error, {**subject.names, "URL": connection.url})


async def version(subject: doctor.Subject) -> AsyncIterator[doctor.Finding]:
    """Whether this server is one that the tests have run on."""
    async with subject.conductor() as conductor:
        found = await conductor.queue.check()
    tested = ".".join(map(str, TESTED_VERSION))
    numbers = doctor.version_numbers(found)
    if numbers == TESTED_VERSION:
        yield doctor.ok(f"{found}, as tested")
    elif numbers[:2] == TESTED_VERSION[:2]:
        yield doctor.ok(f"{found}; tested: {tested}")
    else:
        newer = numbers > TESTED_VERSION
        text = f"{found} is {'newer' if newer else 'older'} than the tested {tested}"
        remedy = "`pip install --upgrade perago`: a newer release may have been tested with it."
        yield doctor.Finding(doctor.Status.WARNING, text, remedy if newer else "")


async def taskdefs(subject: doctor.Subject) -> AsyncIterator[doctor.Finding]:
    """Whether Conductor knows the tasks as the code declares them."""
    if not subject.tasks:
        raise doctor.NotCheckedError(
            "no task module was named", "`perago doctor MODULE` checks its tasks and who polls them"
        )
    missing, same = list[TaskDefinition](), list[str]()
    async with subject.conductor() as conductor:
        for task in served_tasks(subject.tasks):
            registered = await conductor.definitions.read(task.name)
            if registered is None:
                missing.append(task)
                continue
            differences = taskdef_differences(registered, build_taskdef(task))
            if differences:
                text = f"{task.name} differs: {'; '.join(map(str, differences))}"
                yield doctor.coded(doctor.Status.WARNING, text, "PRG-T019", subject.names)
            else:
                same.append(task.name)
    if missing:
        text = f"not registered: {', '.join(task.name for task in missing)}"
        # No worker starts without those of its modules. The built-in ones are for runs and joins.
        is_in_the_way = any(task in subject.tasks for task in missing)
        status = doctor.Status.FAILURE if is_in_the_way else doctor.Status.WARNING
        yield doctor.coded(status, text, "PRG-T019", subject.names)
    if same:
        yield doctor.ok(f"as in the code: {', '.join(same)}")


async def leases(subject: doctor.Subject) -> AsyncIterator[doctor.Finding]:
    """Whether a worker that is healthy can always keep its rows until they are published."""
    long: list[str] = []
    async with subject.conductor() as conductor:
        for task in subject.tasks:
            registered = await conductor.definitions.read(task.name)
            lease = None if registered is None else registered.get("responseTimeoutSeconds")
            if not isinstance(lease, int):
                continue
            needed, why = _lease_needed(task)
            if lease >= needed:
                long.append(f"{task.name} {lease} s")
                continue
            text = f"{task.name} has {lease} s and needs {needed} s, {why}"
            remedy = doctor.remedy_of("PRG-H003", subject.names)
            declared = task.controls.response_timeout_seconds
            if declared < needed:
                field_of = "TimeoutPolicy(response_seconds=...)"
                remedy = f"{field_of} of {task.name} says {declared}: raise it. Then {remedy}"
            yield doctor.Finding(doctor.Status.WARNING, text, remedy, "PRG-H003")
    if long:
        yield doctor.ok(f"long enough: {', '.join(long)}")


def _lease_needed(task: TaskDefinition) -> tuple[int, str]:
    budget = task.controls.publish_budget
    if budget is None or (task.workspace is not None and task.workspace.read_only):
        return LEASE_SECONDS_MIN, "so that one lost heartbeat costs no attempt"
    return budget.response_timeout_seconds, "the sum of its publish budget"


async def forks(subject: doctor.Subject) -> AsyncIterator[doctor.Finding]:
    """Whether a retry inside a registered fork may end its workflow."""
    retried = {task.name for task in subject.tasks if task.controls.retry.count}
    if not retried:
        return
    async with subject.conductor() as conductor:
        definitions = await conductor.workflows.list_definitions()
    for definition in definitions:
        branches = _simple_branches(definition.get("tasks"))
        names = sorted({name for name in branches if name in retried})
        if names:
            workflow = str(definition.get("name"))
            text = f"workflow {workflow} retries {', '.join(names)} as SIMPLE branches of a fork"
            known = {**subject.names, "WORKFLOW": quote(workflow)}
            yield doctor.coded(doctor.Status.WARNING, text, "PRG-H006", known)


def _simple_branches(tasks: object) -> Iterator[str]:
    """The SIMPLE tasks below forks in a part of a definition, however deep."""
    if isinstance(tasks, Mapping):
        task = cast("Mapping[str, object]", tasks)
        for branch in _listed(task.get("forkTasks")):
            for step in map(as_mapping, _listed(branch)):
                if step.get("type") == "SIMPLE":
                    yield str(step.get("name"))
        tasks = list(task.values())
    for each in _listed(tasks):
        yield from _simple_branches(each)


def _listed(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


@dataclass(slots=True)
class _Watched:
    """What was seen of one task: each worker's last poll by domain, and rows."""

    task: str
    polls: dict[str | None, dict[str, datetime]] = field(
        default_factory=dict[str | None, dict[str, datetime]]
    )
    # Who polled while this was looked at, whatever the clocks say.
    active: dict[str, str | None] = field(default_factory=dict[str, str | None])
    waiting: Mapping[str | None, int] = field(default_factory=dict[str | None, int])
    held: Sequence[AttemptRecord] = ()

    def note(self, polls: Sequence[LastPoll]) -> None:
        """Remember one look; a poll that the look before did not show was made between the two."""
        for poll in polls:
            known = self.polls.setdefault(poll.domain, {})
            if known and poll.at not in known.values():
                self.active[poll.worker_id] = poll.domain
            known[poll.worker_id] = poll.at

    @property
    def holders(self) -> list[str]:
        """Everyone who has a row."""
        return sorted({row.snapshot.worker_id or "an unknown worker" for row in self.held})

    def name_of(self, domain: str | None) -> str:
        """The task, and the domain of one of its queues."""
        return self.task if domain is None else f"{self.task} in the domain {domain}"

    def rows(self, domain: str | None) -> str:
        """How many rows wait in a queue, and who has rows of the task."""
        text = f"{self.waiting.get(domain, 0)} waiting, {len(self.held)} in progress"
        return f"{text} ({', '.join(self.holders)})" if self.held else text


async def polls(subject: doctor.Subject) -> AsyncIterator[doctor.Finding]:
    """Who polls each task, how many rows wait, and whether a worker of 0.6.1 is among them."""
    if not subject.tasks:
        return
    watched = await _watch(subject)
    for each in watched:
        for finding in _of_task(each, subject):
            yield finding
    workers = {name for each in watched for name in (*each.active, *each.holders)}
    old = sorted(filter(_OLD_WORKER.fullmatch, workers))
    if old:
        yield await _old_workers(subject, old)


async def _watch(subject: doctor.Subject) -> list[_Watched]:
    """Look at the polls of every task several times, and at its rows once."""
    watched = [_Watched(task.name) for task in subject.tasks]
    async with subject.conductor() as conductor:
        for look in range(LOOKS):
            if look:
                await subject.clock.sleep(BETWEEN_LOOKS_SECONDS)
            for each in watched:
                each.note(await conductor.queue.last_polls(each.task))
        for each in watched:
            each.waiting = await conductor.queue.waiting(each.task)
            with suppress(ServiceError):  # this Conductor may keep no index of tasks
                each.held = await conductor.queue.in_progress(each.task)
    return watched


def _of_task(watched: _Watched, subject: doctor.Subject) -> Sequence[doctor.Finding]:
    """One finding for each queue of a task; a task without any queue has one all the same."""
    queues = sorted({*watched.polls, *watched.waiting} or {None}, key=str)
    found = [_of_queue(watched, domain, subject) for domain in queues]
    return [each for each in found if each] or [_unpolled(watched, None, subject)]


def _of_queue(
    watched: _Watched, domain: str | None, subject: doctor.Subject
) -> doctor.Finding | None:
    """Whether a worker polls one queue; nothing of a domain that is not used any more."""
    waiting, known = watched.waiting.get(domain, 0), watched.polls.get(domain, {})
    last, now = max(known.values(), default=None), subject.clock.now()
    is_young = last is not None and abs(now - last) < timedelta(seconds=POLLED_SECONDS)
    if is_young or domain in watched.active.values():
        text = f"polled by {_last_asked(known, subject.clock)}; {watched.rows(domain)}"
        return doctor.ok(f"{watched.name_of(domain)}: {text}")
    return None if domain is not None and not waiting else _unpolled(watched, domain, subject)


def _unpolled(watched: _Watched, domain: str | None, subject: doctor.Subject) -> doctor.Finding:
    said = _last_asked(watched.polls.get(domain, {}), subject.clock)
    text = f"no worker polls it (last: {said or 'never'}); {watched.rows(domain)}"
    elsewhere = {*watched.active.values()} - {domain}
    if elsewhere:
        named = sorted(f"with domain {each}" if each else "without a domain" for each in elsewhere)
        text += f"; workers poll {', '.join(named)}"
    remedy, start = (
        doctor.remedy_of("PRG-H001", subject.names),
        filled("start MODULE", subject.names),
    )
    if domain is not None:
        remedy = remedy.replace(start, f"{start} --domain {quote(domain)}")
    # Its holders may be busy, and each row that ends frees a slot.
    is_stuck = watched.waiting.get(domain, 0) and not watched.held
    status = doctor.Status.FAILURE if is_stuck else doctor.Status.WARNING
    return doctor.Finding(status, f"{watched.name_of(domain)}: {text}", remedy, "PRG-H001")


def _last_asked(known: Mapping[str, datetime], clock: Clock) -> str:
    newest_first = sorted(known, key=lambda worker: known[worker], reverse=True)
    ages = {worker: (clock.now() - known[worker]).total_seconds() for worker in newest_first}
    return ", ".join(f"{worker} {max(age, 0):.0f} s ago" for worker, age in ages.items())


async def _old_workers(subject: doctor.Subject, names: Sequence[str]) -> doctor.Finding:
    prefixes = [each.removesuffix(OLD_SUFFIX) for each in names]
    here = await subject.concurrency.blocking(lambda: old_workers_here(prefixes))
    text = f"{', '.join(names)} of 0.6.1 polls the same tasks, and relocates branches unchecked"
    remedy = doctor.remedy_of("PRG-H002", subject.names)
    if here:
        numbers = " ".join(map(str, here))
        remedy = f"`kill {numbers}` lets its attempts end, and stops it on this machine."
    return doctor.Finding(doctor.Status.FAILURE, text, remedy, "PRG-H002")


async def old_publications(subject: doctor.Subject) -> AsyncIterator[doctor.Finding]:
    """Whether a worker of 0.6.1 published lately, whatever tasks it polls."""
    if subject.repository is None or subject.connections.lakefs is None:
        return
    async with subject.lakefs() as lakefs:
        repository = await lakefs.repositories.read(subject.repository)
        branch = subject.branch or repository.default_branch
        walk = await lakefs.commits.first_parents(
            subject.repository, branch, None, commits_max=COMMITS_READ
        )
    since = (subject.clock.now() - OLD_AGE_MAX).timestamp()
    old = [
        each.commit
        for each in walk.commits
        if each.created_at >= since and _OLD_PUBLICATION.fullmatch(each.message)
    ]
    if old:
        text = f"{len(old)} commits of the last day on {branch} are of 0.6.1, the newest {old[0]}"
        yield doctor.coded(doctor.Status.WARNING, text, "PRG-H002", subject.names)


CONDUCTOR_CHECKS = (
    doctor.Check(ADDRESS, address, server="conductor"),
    doctor.Check(VERSION, version, (ADDRESS,), server="conductor"),
    doctor.Check(TASKDEFS, taskdefs, (ADDRESS,), server="conductor"),
    doctor.Check(LEASES, leases, (ADDRESS,), server="conductor"),
    doctor.Check(FORKS, forks, (ADDRESS,), server="conductor"),
    # Each of the looks asks for every task, so many tasks take longer than the usual 10 s.
    doctor.Check(POLLS, polls, (ADDRESS,), seconds=30.0, server="conductor"),
    doctor.Check(POLLS, old_publications, (REPOSITORY,), server="lakefs"),
)
