"""Reads a workflow again and again for its page, less often while nothing changes.

A service that does not answer takes nothing off the page: what was read before stays, and the page
says what is missing since then. Reads only.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from perago.app.inspection.attempts import InspectionTools, Question, gather
from perago.app.inspection.history_page import page_of
from perago.app.page.model import PageView
from perago.domain.attempt_history import AttemptHistory, NowhereToLookError, WorkflowFacts
from perago.domain.logical_execution import CommitId, CommitRecord, RepositoryId
from perago.ports.errors import MissingError, ServiceError

# A reading is eight requests. Every two seconds they are nothing to a server, and an eye can follow
# a step that is shown two seconds late. A task function may run for hours: then one reading in
# fifteen seconds is enough to see its end.
FIRST_WAIT_SECONDS, LAST_WAIT_SECONDS, SLOWER = 2.0, 15.0, 1.5
# Only a commit itself says when it was made, and on what. Commits never change, so each is read
# once, the newest first: after some readings the page knows all of a long workflow. Eight at once
# double the requests of a reading, and no more.
COMMITS_READ_MAX = 8


@dataclass(slots=True)
class Watcher:
    """One workflow that a page follows; `wait` is the pause before the next reading."""

    tools: InspectionTools
    question: Question
    title: str
    wait: float = FIRST_WAIT_SECONDS
    page: PageView | None = None
    _history: AttemptHistory | None = None
    _read: dict[str, CommitRecord | None] = field(default_factory=dict[str, CommitRecord | None])

    async def read(self) -> PageView:
        """Ask once. The first reading raises what goes wrong, because nothing can be shown yet."""
        history, notice = await self._look()
        if not notice:
            self._history = history
            await self._read_staged(history)
        staged = {commit: found for commit, found in self._read.items() if found is not None}
        read_at = self.tools.clock.now().timestamp()
        page = page_of(history, self.title, staged, read_at)
        if notice:  # nothing proves an end that was not read whole
            page = replace(page, notice=notice, live=True)
        changed = self.page is None or replace(page, read_at=self.page.read_at) != self.page
        if changed:
            # What is shown under a notice is as old as the last whole reading.
            before = self.page.read_at if notice and self.page else read_at
            self.page = replace(page, read_at=before)
        self.wait = FIRST_WAIT_SECONDS if changed else min(self.wait * SLOWER, LAST_WAIT_SECONDS)
        assert self.page is not None, "set above"
        return self.page

    async def _look(self) -> tuple[AttemptHistory, str]:
        """The newest whole history, and what kept this reading from being one."""
        before = self._history
        try:
            found = await gather(self.tools, self.question)
        except (ServiceError, NowhereToLookError) as error:
            if before is None:
                raise
            return before, f"{error} What is below was read before that."
        # As many gaps as before are no outage: a listing that is too long has one in each reading.
        if before is not None and len(found.unanswered) > len(before.unanswered):
            why = " ".join(found.unanswered)
            kept = replace(before, workflows=_newer(before, found))
            return kept, f"{why} What is below was read before that."
        return found, ""

    async def _read_staged(self, history: AttemptHistory) -> None:
        for repository, commit in self._not_read(history):
            try:
                self._read[commit] = await self.tools.commits.read(repository, commit)
            except MissingError:
                self._read[commit] = None
            except ServiceError:
                return  # the next reading tries again

    def _not_read(self, history: AttemptHistory) -> list[tuple[RepositoryId, CommitId]]:
        """The newest staged commits that were not read yet."""
        found = dict(self._staged(history))
        return [(where, commit) for commit, where in found.items()][:COMMITS_READ_MAX]

    def _staged(self, history: AttemptHistory) -> Iterator[tuple[CommitId, RepositoryId]]:
        where = {each.repository for each in history.branches}
        for task in reversed(history.tasks):
            for attempt in reversed(task.attempts):
                left = next((each.repository for each in attempt.branches), None)
                repository = left or (next(iter(where)) if len(where) == 1 else None)
                if repository is None or attempt.staged is None:
                    continue
                if attempt.staged not in self._read:
                    yield attempt.staged, repository


def _newer(before: AttemptHistory, found: AttemptHistory) -> tuple[WorkflowFacts, ...]:
    """What Conductor said of each workflow, as far as it answered this time."""
    now = {each.workflow_id: each for each in found.workflows if each.status is not None}
    return tuple(now.get(each.workflow_id, each) for each in before.workflows)
