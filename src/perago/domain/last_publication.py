"""Which commit below an input is the last publication of a task, whichever workflow made it.

A task function that works on changes alone asks for it. Asks no server.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from perago.domain.commit_metadata import LOGICAL_TASK_KEY, PREFIX, RUN, TASK_TYPE
from perago.domain.logical_execution import CommitId, CommitRecord

MERGE_PARENTS = 2  # the head before, and the head of the run; a squash has the first one only


@dataclass(frozen=True, slots=True)
class PublishingTask:
    """What is the same in every workflow: the task, its step in the definition, and its prefix.

    The reference name counts, because one workflow may use a task twice on one prefix, and what the
    first use published is a change for the second one.
    """

    task_type: str
    reference_name: str
    prefix: str

    def made(self, record: CommitRecord) -> bool:
        """Whether an attempt of this task made a commit; no other commit is taken for one.

        Commits of releases before 0.7.0 name no task type, so they count as commits of others.
        """
        said = record.metadata
        reference = said.get(LOGICAL_TASK_KEY, "").partition("/")[2].rpartition("/")[0]
        found = PublishingTask(said.get(TASK_TYPE, ""), reference, said.get(PREFIX, ""))
        return found == self

    def last_of(self, records: Iterable[CommitRecord]) -> CommitRecord | None:
        """The newest publication of this task, of commits that are listed newest first."""
        return next((record for record in records if self.made(record)), None)


def run_inside(record: CommitRecord) -> CommitId | None:
    """The head of the run that a commit brought to its branch; its own commits are below that.

    First parents lead past them. A run that was squashed has none.
    """
    if RUN in record.metadata and len(record.parents) == MERGE_PARENTS:
        return record.parents[1]
    return None
