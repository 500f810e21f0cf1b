"""Histories made by hand, a line at a time: one branch, one workflow.

Times are (asked, answered); None: never answered.
"""

from dataclasses import dataclass, field, replace
from typing import TypeAlias

from tests.histories.branches import BRANCH_LOG, LAKEFS
from tests.histories.exchange import END, Exchange, Json
from tests.histories.rows import CONDUCTOR, WORKFLOW

Times: TypeAlias = "tuple[float, float | None]"
A, X, Y, S, T = (letter * 64 for letter in "abcde")
PLACE = "/api/v1/repositories/repo"
WHO = "worker"
BY_LAKEFS: dict[str, Json] = {".lakefs.merge.strategy": "default"}


@dataclass(frozen=True, slots=True)
class Made:
    """A commit of the target: what it is made of, what it stands on, and whose it is."""

    commit: str
    on: str = A
    staged: str = S
    key: str = "k"

    @property
    def metadata(self) -> dict[str, Json]:
        """As a publication carries them."""
        return {
            "perago.staging_commit": self.staged,
            "perago.expected_head": self.on,
            "perago.logical_execution_key": self.key,
        }


@dataclass(slots=True)
class MadeHistory:
    """Its lines."""

    lines: list[Exchange] = field(default_factory=list[Exchange])

    def created(self, commit: str = A, times: Times = (0, 1)) -> "MadeHistory":
        """The branch."""
        given: Json = {"name": "main", "source": commit}
        place = f"{PLACE}/branches"
        return self._add(Exchange(LAKEFS, WHO, "POST", place, *times, 201, {}, given, commit))

    def merged(self, made: Made, times: Times = (2, 3), status: int = 200) -> "MadeHistory":
        """A squash merge; answered with its commit, with an error, or never."""
        given: Json = {"metadata": made.metadata}
        answer: Json = {"reference": made.commit} if status == 200 else {"message": "failed"}
        place = f"{PLACE}/refs/{made.staged}/merge/main"
        asked, answered = times
        sent = Exchange(LAKEFS, WHO, "POST", place, asked, request=given)
        heard = replace(sent, answered=answered, status=status, answer=answer)
        return self._add(sent if answered is None else heard)

    def refused(self, *, expected: str, found: str, times: Times) -> "MadeHistory":
        """A merge that the fence refused."""
        given: Json = {"metadata": Made("", expected, T).metadata}
        answer: Json = {"message": f"hook: perago.head_moved {expected} {found}"}
        place = f"{PLACE}/refs/{T}/merge/main"
        return self._add(Exchange(LAKEFS, WHO, "POST", place, *times, 412, {}, given, answer))

    def read(self, commit: str, times: Times) -> "MadeHistory":
        """The head."""
        answer: Json = {"results": [{"id": commit}]}
        place = f"{PLACE}/refs/main@/commits"
        return self._add(Exchange(LAKEFS, WHO, "GET", place, *times, 200, answer=answer))

    def shown(self, made: Made, on: str, times: Times) -> "MadeHistory":
        """The record of a commit, which stands on another one than its request expected."""
        answer: Json = {"id": made.commit, "parents": [on], "metadata": made.metadata}
        place = f"{PLACE}/commits/{made.commit}"
        return self._add(Exchange(LAKEFS, WHO, "GET", place, *times, 200, answer=answer))

    def reset(self, commit: str, times: Times) -> "MadeHistory":
        """By hand."""
        place = f"{PLACE}/branches/main/hard_reset"
        return self._add(Exchange(LAKEFS, WHO, "PUT", place, *times, 204, {"ref": commit}))

    def updated(self, ref: str, task: str = "t1", times: Times = (8, 9)) -> "MadeHistory":
        """A worker tells Conductor that a row is completed."""
        return self._add(
            Exchange(CONDUCTOR, WHO, "POST", "/api/tasks", *times, 200, {}, row(ref, task), task)
        )

    def ends(self, *commits: Made) -> "MadeHistory":
        """The log at the end, the head first."""
        records: list[Json] = [
            {"id": each.commit, "parents": [each.on], "metadata": {**BY_LAKEFS, **each.metadata}}
            for each in commits
        ]
        base: Json = {"id": A, "parents": [], "metadata": {}}
        facts: Json = {"repository": "repo", "branch": "main", "commits": [*records, base]}
        return self._add(Exchange(END, WHO, "FOUND", BRANCH_LOG, 90, 90, 200, answer=facts))

    def found(self, *rows: Json) -> "MadeHistory":
        """The rows of the workflow at the end."""
        facts: Json = {"workflowId": "w", "tasks": list(rows)}
        return self._add(Exchange(END, WHO, "FOUND", WORKFLOW, 91, 91, 200, answer=facts))

    def _add(self, exchange: Exchange) -> "MadeHistory":
        self.lines.append(exchange)
        return self


def row(ref: str, task: str = "t1") -> Json:
    """A completed row."""
    workspace: Json = {"repository": "repo", "branch": "main", "ref": ref}
    return {"taskId": task, "status": "COMPLETED", "outputData": {"workspace": workspace}}
