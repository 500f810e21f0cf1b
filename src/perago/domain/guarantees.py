"""What is guaranteed at which level: the one table that all documentation repeats.

Its rows and its Markdown; each policy's file has its own columns (`PROMISES`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perago.domain.policy import Level

ROWS = (
    "accepted publication never lost",
    "another writer's commit never overwritten",
    "nothing of an abandoned or stale attempt visible after acceptance",
    "at most one publication of a logical execution",
    "works on protected branches",
    "retry runs the task function again",
)
"""The promises as sentences, in the order of the fields of `Promises`."""

RUN_ROWS = (
    "a target shows a run whole or not at all",
    "a run is published at most once, with the head that was decided",
    "a run is not lost: before its finish, or once it was finished",
)
"""What `perago.begin` and `perago.finish` promise; they need the fence, as `settled` does."""


@dataclass(frozen=True, slots=True)
class Guarantee:
    """One promise and how far it goes at each level."""

    promise: str
    at: Mapping[Level, str]


def _title(level: Level) -> str:
    if level.shape.needs_fence:
        return f"`{level.policy}` (needs the fence)"
    return f"`{level.policy}` + fence" if level.fenced else f"`{level.policy}`"


def _column(level: Level) -> Mapping[str, str]:
    column = level.shape.promises[-1 if level.fenced else 0]
    return dict(zip(ROWS, column, strict=True))


LEVELS: Mapping[Level, str] = {level: _title(level) for level in Level}
"""The columns, weakest first."""

_COLUMNS = {level: _column(level) for level in Level}
GUARANTEES: Sequence[Guarantee] = tuple(
    Guarantee(promise, {level: column[promise] for level, column in _COLUMNS.items()})
    for promise in ROWS
)

PAGE_HEAD = """\
# What is guaranteed

The table has one column for each guarantee level. No other page promises more than this table. To
see the level of an attempt, look at the log, the span, the commit or the task's log in Conductor.
If Perago cannot explain the state of a branch, it publishes nothing and keeps log, commit metadata
and tags for you to inspect.

"""

PAGE_FOOT = """
## Runs

The tasks between `perago.begin` and `perago.finish` publish on a branch of their run, and there the column
`settled` holds for them. Of the target a run promises three things:

- **A target shows a run whole or not at all.** The commit of `perago.finish` changes on the target exactly
  what the tasks have changed since the base, whatever others have published there meanwhile. No commit of
  a run that is not finished is ever on the target.
- **A run is published at most once, with the head that was decided.** The attempts of one `perago.begin`
  agree on one run and one base, and those of one `perago.finish` on one head. A finish that is run again
  returns the publication that is there.
- **A run is not lost.** Its branch stays until Conductor has recorded the end of `perago.finish`, or until
  its workflow has ended and an operator runs `perago abandon`, or garbage collection removes it
  `PERAGO_GC_RUN_TTL` (7 days) after that end. While a decision of finish stands, garbage collection keeps the
  branch. After finish, the commit stays in the history of the target, as every accepted publication.

Three moments are not covered, because only the server could close them. An attempt of `perago.begin` that
stands still between its last question and its request can create the branch of a run again that has been
finished meanwhile, and a late merge of one of its tasks can land there: the target does not change, and
garbage collection removes that branch. If Conductor brings a workflow back while
`perago abandon` or garbage collection removes its run, its next task or its finish fails for good, and the
target has not changed. A person can still pick, revert or copy what is on a run branch.

## What the fence refuses

The fence is the hook that `perago fence install` puts into a repository. lakeFS runs it inside the
atomic step that moves the branch. It refuses two kinds of merges:

- A merge that names the head it expects, where the branch has another head by then
  (`perago.head_moved`). That holds for version 1 too.
- Since version 2, a merge that names no head, of a private branch of Perago: `perago-staging-*`,
  `perago-run-*`, `perago-scratch-*`, or of a decision by its tag `perago-settled-*`
  (`perago.private_branch`, `PRG-F027`). Such a branch holds what no attempt has decided, or half a
  run. All other merges pass.

The hook judges what the caller wrote. It does not notice a staged commit that an operator merges by its
commit id: lakeFS tells a hook the id of the source commit, and neither its metadata nor the branches
that hold it. It does not notice a branch of one's own that was created from a private branch, a
cherry-pick, or objects copied from a private branch either. Perago takes the result for a commit of
another writer: a publication on the old head is refused, and nothing is published twice. lakeFS loads
the hook from the source commit, so a merge of a branch without the file is not checked, and removes the
file from the target; attempts that start from there do not run under `settled`.

## A worker that dies after the task function

Under `settled`, when the task function has ended, the worker writes its outcome beside the attempt
directory and flushes it to the disk before it does anything else: the result, the key of the logical
execution, and the path, size and stamps of every file. If the worker then dies before the decision
(SIGKILL, no memory, a power cut), the next attempt of the same logical execution on that host goes on
at the guardrails and the comparison. It downloads nothing, and the function does not run again.

The same holds where the worker lives: if a drain, a lakeFS or Conductor that stayed away, or the loss of
the row ends an attempt between the end of its function and the decision, the worker leaves the directory
and its outcome for the next attempt. After a full disk, a guardrail, a check or a failure of the task
itself it removes the directory, and the function runs again.

- Same host, same `PERAGO_WORKSPACE_ROOT`: an attempt on another host runs the function. So does a pod
  that starts again, unless its root is on a volume that it finds again.
- The directory has to be what the function left: the same files with the same size, times and inode.
  If a process that the function left behind has changed it, the attempt refuses it, removes it, and
  runs the function. A process that writes through memory it had mapped before the function ended can
  change bytes and no times; do not leave such a process behind.
- After a restart of the machine, times prove nothing. Every file is read and compared with its
  checksum. Only the first 64 MiB of what the function wrote have one: if it wrote more, it runs again.
  It also runs again if the power cut came before the system had written the files to the disk.
- The outcome counts for the same task, key, input commit, branch, prefix and params only. The code of
  the task is not part of the key: after a deploy, the outcome of the old code counts, as its decision
  does. If its result does not fit the new result model, the function runs again. To have it computed
  again in any case, run `perago reset-task`.
- Spark tasks, and workspaces that were moved as Spark jobs, keep no outcome. Tasks without a workspace
  and read-only tasks have no key, so they keep none either.
- If the disk refuses the record, the attempt goes on without it and writes a warning.

## Retries on another input

A logical execution is all retries of one scheduled task on one input: one commit, one branch, one
prefix, and the same params as Conductor delivered them. Conductor resolves input expressions again
for every retry. If they give another input, the retry is a logical execution of its own. It looks
first for what earlier attempts of the task published:

- If they published for the same params on the same branch, the retry returns that as its output.
- If they published for other params or on another branch, the retry fails for good (`PRG-F026`).
- If they decided on a commit and did not publish it, that commit cannot be published later. Under
  `isolation="prefix"` it could, and on another branch that still stands on its input, so there the
  retry fails for good (`PRG-F008`).

One case is not covered: the merge of an earlier attempt may take effect after such a retry has
completed without a change. To avoid it, do not let params depend on the attempt, for example on its
task id.

## Checkpoints

Under `settled` a task function can save its state while it runs
([how to](how-to/checkpoints.md)). These are the limits:

- The next attempt of the same logical execution finds the newest checkpoint that was uploaded
  completely, on whatever host it runs. A worker that dies loses what was done since: at most
  `PERAGO_CHECKPOINT_INTERVAL` and the time of one upload. If the task function fails, the newest copy is
  uploaded before the retry begins.
- A checkpoint is never published, and never changes what is. It is on a branch of its own execution,
  so two attempts that overlap never mix their files.
- Which checkpoint is the newest is told by the time at which its execution began, by the clock of its
  worker. If two attempts overlap and the clocks of their workers differ, the next attempt may find the
  checkpoint of the other one. It belongs to the same input and params, and may be less far.
- A rerun by an operator, a retry on another input or with other params, and a task after
  `perago reset-task` are logical executions of their own, and find nothing.
- If lakeFS does not take a checkpoint, the attempt goes on. If the newest checkpoint is damaged or is
  removed while it is read, the task function begins anew. If lakeFS does not answer, the attempt waits
  as it does for its workspace.
- Until the decision, everyone who may read the repository may read the checkpoints.

## Reruns by an operator

Conductor identifies the end of an attempt by the task id alone, and a rerun keeps that id. If an
operator reruns a row while the end of its attempt is still being sent, that end completes the new run
with the earlier output. What the new run publishes in that moment stays on the branch. To avoid it,
wait until the worker has ended the attempt, or for the time-out of one request, before you rerun a
terminated row.

Only a mark tells a rerun of a retried row from one more retry, and garbage collection removes the
marks with the decisions, `PERAGO_GC_TAG_TTL` (7 days) after the end of the workflow. From then on such
a rerun with the same input and the same params counts as a retry. If an earlier attempt published, the
task function runs, its result is dropped, and the row completes with that publication and the result
that belongs to it. To have the task computed again, run `perago reset-task` before the rerun; the reset
is kept for 7 days. A rerun of the first row of a task is always a new execution: its key changes.

A rerun from a later task hands out every failed attempt of the tasks before it again, also one that a
retry has made good. Conductor ignores what becomes of it, but waits for its end and lets no lease of it
expire. A worker ends such an attempt as FAILED (`PRG-F001`) without running it. If the worker dies before
that, the workflow stays RUNNING: terminate it, and start a new one.

## Workers of 0.6.1

The table is about workers of this version. Workers of 0.6.1 that still run beside them use neither
the fence nor metadata.

- On a protected branch lakeFS refuses their hard resets, so they remove nothing. A stale attempt of
  0.6.1 may still merge after a no-op was accepted, or onto a publication that changed other files.
- On an unprotected branch a 0.6.1 worker may reset the branch and drop the single commit on top of
  its input, even if that is an accepted publication of `settled`.

[Stop them first](upgrade.md). If you cannot stop all of them, protect the branch.

## Garbage collection

Garbage collection keeps what a decision or a running attempt needs. If lakeFS or Conductor does not
answer a question about a branch or tag, it keeps that branch or tag;
[operations.md](operations.md#garbage-collection) has the ages. The data of a decision that is not
published yet is on its staging branch. Do not delete `perago-staging-*` branches by hand while a
workflow may be retried.

A replaced attempt may still decide after a pass has deleted its staging branch. The attempt and the pass
each look for the branch afterwards and create it again. The branch stays away only if the attempt dies
before it looks, or if lakeFS carries out the deletion after both have looked. A retry still publishes
such a decision by the id of its commit, until lakeFS's own garbage collection has removed the commit's
data. Retry the workflow before that, or run `perago reset-task`.

## What the rows did not cover before

Reviews of 0.7.0 before its release found orders of events in which a row was not true. Each of them
is corrected, and a test repeats it:

| row | what was missing | what holds now |
| --- | --- | --- |
| accepted publication never lost | garbage collection could take the branch of a decision after one lost answer, in a race, or before an operator's retry | gc reads the head of the branch, and keeps the branch as long as the tag of its decision |
| accepted publication never lost | a `head-parent` attempt could relocate over the commit that installs the fence | that commit names its owner, so Perago refuses the relocation |
| another writer's commit never overwritten | Perago published what a Spark task had committed itself without checking it; Perago trusted a forged decision | Perago checks the whole difference between input and staged commit, whoever committed it |
| nothing of an abandoned or stale attempt visible after acceptance | the late end of an old attempt, read-only and workspace-free ones included, ended the row of a newer one | an attempt of a second or more reads its row before it ends it, and a stale one sends nothing |
| at most one publication of a logical execution | a tag that was created late split one task into two executions; a retry with another input published again | the first dispatch of a row fixes its execution; a retry looks for publications of earlier inputs |
| retry runs the task function again | a decision made with other params was finished with its old result; `perago forget` could lead back to that result | params are part of the execution; after `perago reset-task` the task function runs again, or the attempt says why it cannot |

The row "works on protected branches" did not change.
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
