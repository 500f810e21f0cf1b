"""Which files of Spark jobs count: those that the manifest of their job names.

The commit protocol puts `-<job>-try<number>` into the names of files and writes one manifest a
job, a list of object paths. Knows names; reads nothing.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

MANIFEST_PREFIX = "_perago_committed-"
_TRIED = re.compile(r"part-\d{5,}-(?P<job>[0-9a-f]{8}-[0-9a-f-]{27})-try\d+[.-]")


def manifest_job(path: str) -> str | None:
    """The job whose manifest this object is, or None."""
    name = path.rpartition("/")[2]
    return name.removeprefix(MANIFEST_PREFIX) if name.startswith(MANIFEST_PREFIX) else None


def writing_job(path: str) -> str | None:
    """The job that wrote this file under our protocol, or None for everybody else's files."""
    found = _TRIED.search(path.rpartition("/")[2])
    return None if found is None else found["job"]


@dataclass(slots=True)
class JobFiles:
    """Files and manifests of the jobs of one body."""

    files: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    manifests: dict[str, str] = field(default_factory=dict[str, str])

    def take(self, path: str) -> bool:
        """Remember a new object of a job; False when it is none."""
        job = manifest_job(path)
        if job is not None:
            self.manifests[job] = path
            return True
        job = writing_job(path)
        if job is not None:
            self.files.setdefault(job, []).append(path)
            return True
        return False

    def losers(self, committed: Mapping[str, Collection[str]]) -> Iterator[str]:
        """Files that no manifest names; a job without one was never committed."""
        for job, paths in self.files.items():
            names = set(committed.get(job, ()))
            yield from (path for path in paths if path not in names)


def parse_manifest(content: bytes) -> frozenset[str]:
    """The object paths of a manifest."""
    return frozenset(line for line in content.decode("utf-8").split("\n") if line)
