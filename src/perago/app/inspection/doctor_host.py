"""What `perago doctor` asks of this machine: disk, cache, what dead workers left, and Spark."""

import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from shlex import quote

from perago.app.gc.judging import retention_times
from perago.app.gc.local_pass import as_it_was_polled, sweep_directories
from perago.app.gc.remote_pass import RemotePass
from perago.app.inspection.doctor import Check, Finding, Status, Subject, coded, ok, remedy_of
from perago.app.inspection.doctor_lakefs import REPOSITORY
from perago.app.pipeline_parts import cache_directory
from perago.app.settings.runtime_config import (
    WORKER_ID_PREFIX,
    check_writable_root,
    default_worker_id_prefix,
)
from perago.app.settings.settings import Settings
from perago.app.worker.polling import DiskSpace
from perago.app.worker.processes import PROCESSES, all_processes, environment_of, text_of
from perago.domain.errors import SparkEnvironmentError
from perago.domain.retention import Owner
from perago.domain.text import in_units
from perago.ports.conductor import TaskQueue
from perago.ports.errors import disk_errors
from perago.ports.workspace import Leftover

DISK = "workspace disk"
CACHE = "content cache"
LEFTOVERS, LEFT_IN_LAKEFS = "leftovers", "leftovers in lakeFS"
SPARK = "Spark"

PROBE_BYTES = 64 * 1024  # above what a file needs that holds its bytes in its own record
SHOWN_MAX = 5  # of each kind: a person reads one line


async def disk(subject: Subject) -> AsyncIterator[Finding]:
    """Whether a worker may begin a workspace: room, and the right to write."""
    root = subject.settings.workspace_root
    space = await subject.concurrency.blocking(lambda: _space(subject))
    text = f"{in_units(space.free)} of {in_units(space.total)} are free below {root}"
    if not space.is_nearly_full:
        yield ok(text)
        return
    text += f"; below {in_units(int(space.free_min))} a worker polls no workspace tasks"
    yield Finding(Status.FAILURE, text, await _what_frees(subject), "PRG-W004")


def _space(subject: Subject) -> DiskSpace:
    """Read the disk, and write to it: a quota or a mode says nothing before that."""
    root = subject.settings.workspace_root
    there = next(each for each in (root, *root.parents) if each.is_dir())
    usage = shutil.disk_usage(there)
    space = DiskSpace(usage.total, usage.free, subject.settings.disk_free_min)
    if there == root:
        check_writable_root(root, "PERAGO_WORKSPACE_ROOT")
        if not space.is_nearly_full:
            with disk_errors(root), tempfile.TemporaryFile(dir=root) as probe:
                probe.write(bytes(PROBE_BYTES))
    return space


async def _what_frees(subject: Subject) -> str:
    """The commands that make room on the disk of the workspaces, the larger part first."""
    cache = cache_directory(subject.settings)
    dead = [each.path for each in await _dead_directories(subject)]
    sizes = {
        _gc(subject): await _bytes_of(subject, dead),
        f"`rm -r {quote(str(cache))}` empties the content cache.": await _bytes_of(
            subject, [cache]
        ),
    }
    parts = sorted((part for part in sizes if sizes[part]), key=lambda part: -sizes[part])
    return " ".join([*parts, remedy_of("PRG-W004", subject.names)])


async def _bytes_of(subject: Subject, directories: Sequence[Path]) -> int:
    return await subject.concurrency.blocking(lambda: sum(map(_bytes_below, directories)))


def _bytes_below(directory: Path) -> int:
    """What the files of a directory take on its disk, as far as they may be seen."""
    total = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            with suppress(OSError):  # another process removes it meanwhile
                total += Path(folder, name).lstat().st_blocks * 512
    return total


async def cache(subject: Subject) -> AsyncIterator[Finding]:
    """How much the cache takes, and whether its disk holds what it may grow to."""
    directory, bound = cache_directory(subject.settings), subject.settings.cache_size
    if not directory.is_dir():
        yield ok(f"empty; at most {in_units(bound)} in {directory}")
        return
    taken = await _bytes_of(subject, [directory])
    text = f"{in_units(taken)} of at most {in_units(bound)} in {directory}"
    free = shutil.disk_usage(directory).free
    if bound - taken <= free:
        yield ok(text)
        return
    # Half of the room, because the workspaces of attempts need some as well.
    fitting = max((taken + free) // 2 // 1024**2, 1)
    remedy = f"`export PERAGO_CACHE_SIZE={fitting}MB` leaves room for workspaces."
    text += f", and its disk has only {in_units(free)} left"
    yield Finding(Status.WARNING, text, remedy)


async def leftovers(subject: Subject) -> AsyncIterator[Finding]:
    """What dead workers left on this machine."""
    dead = await _dead_directories(subject)
    if subject.connections.conductor is None:
        return  # only Conductor knows what may go, and that it is missing was said above
    root, times = subject.settings.workspace_root, retention_times(subject.settings)
    async with subject.conductor() as conductor:
        rows = await _rows_of(dead, conductor.queue)
        if rows:
            workers = sorted({each.marker.owner_worker_id for each in dead if each.marker})
            text = f"{', '.join(workers)} died with {_some(rows)}; {root} still has their"
            text += " directories; the rows wait for their response time-out"
            yield coded(Status.WARNING, text, "PRG-H005", subject.names)
            return
        swept = await sweep_directories(subject.directories, times, conductor.queue, dry_run=True)
    for path, error in swept.failed:
        yield Finding(Status.WARNING, f"{path}: {error}", f"`ls -ld {quote(str(path))}`")
    if not swept.removed:
        yield ok(f"no dead worker has left a directory below {root}")
        return
    size = in_units(await _bytes_of(subject, swept.removed))
    names = _some([path.name for path in swept.removed])
    text = f"dead workers left {len(swept.removed)} directories with {size} below {root}: {names}"
    yield Finding(Status.WARNING, text, _gc(subject), "PRG-H004")


async def _dead_directories(subject: Subject) -> Sequence[Leftover]:
    if not subject.settings.workspace_root.is_dir():
        return ()
    found = await subject.directories.leftovers(older_than_seconds=0)
    return [each for each in found if each.owner is Owner.GONE]


async def _rows_of(dead: Sequence[Leftover], queue: TaskQueue) -> list[str]:
    """The rows that Conductor still counts as held by a worker that is dead."""
    markers = [each.marker for each in dead if each.marker is not None]
    return [
        f"row {marker.attempt.task_id} of {marker.attempt.task_type}"
        for marker in markers
        if await as_it_was_polled(queue, marker.attempt) is not None
    ]


async def leftovers_in_lakefs(subject: Subject) -> AsyncIterator[Finding]:
    """What a pass of garbage collection would remove in the repository that was named."""
    connections, repository = subject.connections, subject.repository
    if repository is None or connections.lakefs is None or connections.conductor is None:
        return  # that one of them is missing was said above
    times = retention_times(subject.settings)
    # Its many questions may take as long as those of a worker's own pass.
    async with subject.conductor() as conductor, subject.lakefs(answer_seconds=0) as lakefs:
        services = lakefs, conductor.queue, subject.clock
        judged = await RemotePass(*services, repository, times, dry_run=True).run()
    left = [f"{each.kind} {each.name}" for each in judged if each.removed]
    if not left:
        kept = f"; {len(judged)} are kept, see `perago gc --dry-run`" if judged else ""
        yield ok(f"nothing that can go by now in {repository}{kept}")
        return
    text = f"{len(left)} leftovers of ended attempts in {repository}: {_some(left)}"
    yield Finding(Status.WARNING, text, _gc(subject), "PRG-H004")


def _gc(subject: Subject) -> str:
    """What removes leftovers: without a repository the command cleans every one."""
    return remedy_of("PRG-H004", {"REPO": "", **subject.names}).replace(" `", "`")


def _some(names: Sequence[str]) -> str:
    more = len(names) - SHOWN_MAX
    return ", ".join(names[:SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")


TESTED_PYSPARK = ("4.0.5", "4.1.4", "4.3.0")
_ADDED_JARS = "PERAGO_SPARK_CONF_spark_jars"


async def spark(subject: Subject) -> AsyncIterator[Finding]:
    """Whether pyspark, its jars and Java fit together, if a task or a setting wants Spark."""
    settings = subject.settings
    is_wanted = settings.spark_master or settings.spark_conf or settings.pipeline == "spark"
    if not (is_wanted or any(task.on_spark for task in subject.tasks)):
        yield ok("no task and no setting wants it")
        return
    if (settings.spark_master or "").startswith("sc://"):
        yield ok("a Spark Connect server has its own jars")
        return
    try:
        pyspark, text = await subject.concurrency.blocking(subject.installed_spark)
    except SparkEnvironmentError as error:
        yield Finding(Status.FAILURE, str(error), _spark_remedy(error, settings), error.code)
        return
    if pyspark in TESTED_PYSPARK:
        yield ok(f"{text} and jars fit together")
        return
    remedy = f"`pip install pyspark=={TESTED_PYSPARK[-1]}` installs a tested one."
    text = f"{text}; tested: pyspark {', '.join(TESTED_PYSPARK)}"
    yield Finding(Status.WARNING, text, remedy)


def _spark_remedy(error: SparkEnvironmentError, settings: Settings) -> str:
    """Take off the jar that does not fit, if the operator added it; else what the code says."""
    added = [jar for jar in settings.spark_conf.get("spark.jars", "").split(",") if jar]
    found = error.found.replace(" ", "-")  # a jar is named by its file, or with a blank in it
    fitting = [jar for jar in added if Path(jar).stem not in found]
    if fitting == added:
        return remedy_of(error.code, {})
    if not fitting:
        return f"`unset {_ADDED_JARS}` takes it off spark.jars."
    return f"`export {_ADDED_JARS}={quote(','.join(fitting))}` takes it off spark.jars."


OLD_RELEASE = "0.6.1"


def old_workers_here(prefixes: Collection[str]) -> list[int]:
    """The processes on this machine to which SIGTERM ends a worker of 0.6.1 with its attempts.

    By default that is its first child, which polls: its parent stops after that child, and hangs
    when it gets the signal itself. In thread mode there is no child. Only workers of these
    prefixes, because one that polls other tasks may have to stay.
    """
    commands = {pid: text_of(PROCESSES / str(pid) / "cmdline") for pid in all_processes()}
    old = {
        pid
        for pid, command in commands.items()
        if _is_old_worker(command) and not _prefixes_of(pid, command).isdisjoint(prefixes)
    }
    born = {pid: _born(pid) for pid in commands}
    found: list[int] = []
    for pid in old:
        parent, _ = born[pid]
        if parent in old:
            continue  # forked, under the words of its parent
        children = [each for each, (above, _) in born.items() if above == pid]
        polling = [each for each in children if "resource_tracker" not in commands[each]]
        found.append(min(polling, key=lambda each: born[each], default=pid))
    return sorted(found)


def _is_old_worker(command: str) -> bool:
    words = command.split("\0")
    is_start = "start" in words and any(Path(word).name == "perago" for word in words[:3])
    return is_start and any(_records_beside(Path(words[0])))


def _prefixes_of(pid: int, command: str) -> set[str]:
    """Under which a worker may poll: the one it was given, or that of its module."""
    name = f"{WORKER_ID_PREFIX}="
    given = [each.removeprefix(name) for each in environment_of(pid) if each.startswith(name)]
    modules = command.partition("\0start\0")[2].split("\0")
    return set(given or map(default_worker_id_prefix, modules))


def _records_beside(python: Path) -> Iterator[Path]:
    """The record of the old release in the environment of an interpreter."""
    pattern = f"lib/python*/site-packages/perago-{OLD_RELEASE}.dist-info"
    return python.parent.parent.glob(pattern)


def _born(pid: int) -> tuple[int, int]:
    """The parent of a process, and when it was started."""
    fields = text_of(PROCESSES / str(pid) / "stat").rpartition(")")[2].split()
    return (int(fields[1]), int(fields[19])) if fields else (0, 0)


HOST_CHECKS = (
    Check(DISK, disk),
    Check(CACHE, cache),
    # Three times the usual bound for both: a dry pass of garbage collection asks Conductor about
    # what it finds, and lists in lakeFS what is Perago's. More is a wait at a terminal; who has so
    # much left over learns it from `perago gc`.
    Check(LEFTOVERS, leftovers, ("Conductor address",), seconds=30.0),
    Check(
        LEFT_IN_LAKEFS,
        leftovers_in_lakefs,
        ("Conductor address", REPOSITORY),
        seconds=30.0,
        server="lakefs",
    ),
    Check(SPARK, spark),
)
