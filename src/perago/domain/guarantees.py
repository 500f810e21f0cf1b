"""What is guaranteed at which level: the one table that all documentation repeats.

Data and its Markdown; which level is in force is `publication_policy`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perago.domain.policy import Level

LEVELS: Mapping[Level, str] = {
    Level.HEAD_PARENT: "`head-parent`",
    Level.HEAD_PARENT_FENCED: "`head-parent` + fence",
    Level.LINEAGE: "`lineage`",
    Level.LINEAGE_FENCED: "`lineage` + fence",
    Level.SETTLED: "`settled` (needs the fence)",
}
"""The columns, weakest first."""


@dataclass(frozen=True, slots=True)
class Guarantee:
    """One promise and how far it goes at each level."""

    promise: str
    at: Mapping[Level, str]


def _row(promise: str, *texts: str) -> Guarantee:
    return Guarantee(promise, dict(zip(LEVELS, texts, strict=True)))


GUARANTEES: Sequence[Guarantee] = (
    _row(
        "accepted publication never lost",
        "only if nobody else writes and a timed-out attempt's last request dies too",
        "merges: yes; relocation: as left",
        "yes",
        "yes",
        "yes",
    ),
    _row(
        "somebody else's commit never overwritten",
        "merges rebase onto it silently; relocation can drop it if it has no other owner's "
        "metadata",
        "merges refused instead; relocation as left",
        "merges rebase onto it silently",
        "refused instead",
        "yes",
    ),
    _row(
        "nothing of an abandoned or stale attempt visible after acceptance",
        "no (late requests)",
        "no (late requests after a no-op)",
        "no",
        "only by our key",
        "yes, within one logical execution; not after a rerun, a restart or a human's hard reset",
    ),
    _row(
        "at most one publication of a logical execution",
        "no",
        "no",
        "no",
        "no",
        "yes",
    ),
    _row(
        "works on protected branches",
        "first publication only",
        "first publication only",
        "yes",
        "yes",
        "yes",
    ),
    _row(
        "retry runs the body again",
        "yes",
        "yes",
        "yes",
        "yes",
        "not after the decision",
    ),
)

PAGE_HEAD = """\
# What is guaranteed

One column for each level of publication. Nothing else in the documentation promises more than
this table says. The level in force is in the log, the span, the commit and the task's Conductor
log. In every policy, what cannot be explained fails closed and keeps its evidence: log, commit
metadata, tags.

"""

PAGE_FOOT = """
"As left" repeats the cell to the left. The fence is the hook that `perago fence install` puts
into a repository; it compares the expected head inside the server's own atomic step.

A logical execution is all retries of one scheduled task on one input: one commit, one branch, one
prefix, the same params as Conductor delivered them. Conductor resolves input expressions again for
every retry. Where they give another input, the retry is an execution of its own, and looks for
what its predecessors published first: for the same params on the same branch that is its output,
for others it fails for good (`PRG-F026`). What they decided and did not publish cannot be published
beside it, except under `isolation="prefix"`, where it fails for good as well (`PRG-F008`). One
window stays: a predecessor's merge that is on its way may land after such a retry has completed
without a change. So let params not depend on the attempt, for example on its task id.

Conductor takes the end of an attempt by the task's id alone, and a rerun keeps that id. An end that
is on its way while an operator reruns the very row that it belongs to ends the new run: the row
completes with the earlier output, and what the new run publishes in that moment stays on the
branch. So rerun a terminated row when its worker is done with it, a request's time-out later.

The table speaks of workers of this version. Workers of 0.6.1 that still run beside them know no fence
and no metadata. On a branch that lakeFS protects they take nothing away, for it refuses their
resets; but an attempt of theirs that is stale may still merge, after a no-op was accepted, or on
top of a publication that changed other files. On a branch that is not protected a 0.6.1 worker
resets the branch over whatever single commit stands on its input, also over an accepted publication
of `settled`. So [stop them first](upgrade.md); where some cannot be stopped, protect the branch.

Garbage collection takes none of this back. What a decision or a living attempt needs stays, and a
question that was not answered keeps what it was asked for; [operations.md](operations.md) has the
ages. The data of a decision that is not published yet lives on its staging branch: do not delete
`perago-staging-*` branches by hand while a workflow may be retried.

## What the rows did not cover before

Reviews of 0.7.0 before its release showed schedules in which a row was not true. Each of them is
closed, and is a test now:

| row | what was missing | what holds now |
| --- | --- | --- |
| accepted publication never lost | garbage collection could take the branch of a decision after one lost answer, in a race, or before an operator's retry | a branch is judged by its own head, and stays as long as the tag of its decision |
| accepted publication never lost | a `head-parent` attempt could relocate over the commit that installs the fence | that commit names its owner, so the relocation is refused |
| somebody else's commit never overwritten | what a Spark task had committed itself was published unseen; a forged decision was believed | the whole difference between input and staged commit is judged, whoever committed it |
| nothing of an abandoned or stale attempt visible after acceptance | a late end of an old attempt, read-only and workspace-free ones included, ended the row of its successor | an attempt of a second or more reads its row before it ends it, and a stale one sends nothing |
| at most one publication of a logical execution | a mark that landed late split one task into two executions; a retry with another input published again | the first dispatch of a row seals its execution; publications of earlier inputs are looked for |
| retry runs the body again | a decision made with other params was finished with its old result; `perago forget` could lead back to that result | params are part of the execution; after `perago reset-task` the task computes again, or says why it cannot |

"Works on protected branches" is as it was.
"""  # noqa: E501 - rows of a table


def guarantee_table() -> str:
    """The table as Markdown."""
    head = ["", *LEVELS.values()]
    rows = [[row.promise, *(row.at[level] for level in LEVELS)] for row in GUARANTEES]
    return "\n".join(map(_line, [head, ["---"] * len(head), *rows])) + "\n"


def guarantee_page() -> str:
    """The whole of docs/guarantees.md."""
    return PAGE_HEAD + guarantee_table() + PAGE_FOOT


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
