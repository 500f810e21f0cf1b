"""The parts of the reference of tasks about a workspace and about `perago.current_attempt()`."""

import inspect
from collections.abc import Iterator
from dataclasses import fields

from perago.adapters.workspace.changes import SYMLINK_REFUSAL
from perago.app.authoring.current_attempt import CancelSignal, CurrentAttempt, current_attempt
from perago.app.authoring.workspace_spec import StagedView
from perago.domain.paths import ACTIONS_PREFIX, ATTEMPT_MARKER, SEGMENT_BYTES_MAX, SEGMENTS_MAX

ON_DISK = (
    ("empty directory", "nothing: lakeFS has only objects; not published and not downloaded"),
    ("permissions, owner, times", "stay on the disk; a downloaded file is a new file"),
    (
        "symlink, to a file or a directory",
        f"the attempt fails: `{SYMLINK_REFUSAL.format(path='PATH')}`",
    ),
    ("pipe, socket, device", "skipped"),
    ("hard links", "each name is a file of its own"),
    (f"`{ATTEMPT_MARKER}`, at any depth", "never downloaded, published or deleted"),
    (
        f"`{ACTIONS_PREFIX}` of the repository",
        "never downloaded or deleted; a task that writes there fails",
    ),
    ("a file that is written to while it is uploaded", "the attempt fails"),
)
IN_LAKEFS = (
    ("empty object `x/`, a directory marker as Spark leaves it", "ignored, and stays"),
    ("`data2/x` beside the prefix `data`", "ignored, and stays"),
    (
        "content type and user metadata",
        "stay; a changed file keeps them, a renamed or copied one takes them along",
    ),
    (
        (
            "`//`, `.` and `..` as parts, a backslash, `c:` at the start,"
            f" a part longer than {SEGMENT_BYTES_MAX} bytes, more than {SEGMENTS_MAX} parts"
        ),
        (
            "the attempt fails before anything moves, and names the object; no task can publish"
            " such a name either"
        ),
    ),
    (
        (
            "`a` beside `a/b`; names that differ in case or Unicode form only, where the disk takes"
            " them for one"
        ),
        "the attempt fails before anything moves, and names both",
    ),
)


FILES = {
    "added": "Files that the input commit does not have.",
    "changed": "Files that the input commit has with other bytes.",
    "removed": "Files of the input commit that the staged commit does not have.",
}
CHECKS = """## Checks

```python
# checks.py
from perago import StagedView, TaskTerminalError, WorkspaceSpec


def not_empty(view: StagedView) -> None:
    for path in (*view.added, *view.changed):
        if view.size(path) == 0:
            raise ValueError(f"{path} is empty")


def nothing_is_lost(view: StagedView) -> None:
    if view.removed:
        raise TaskTerminalError(f"{view.removed[0]} was removed")


SPEC = WorkspaceSpec(prefix="sales", checks=[not_empty, nothing_is_lost])
```

A guardrail judges paths, and a check judges bytes. Perago runs the checks, in their order, after
it has staged a commit and before it decides or publishes that commit, under every policy. When
nothing changed, Perago checks nothing. A retry that finds a decided commit publishes it without
checking it again.

- A check fails by raising, whatever it raises; it returns nothing, and one that returns `False`
  fails too. Then the attempt fails with `PRG-G003`; the reason names the staged commit, the check
  and its message. Conductor retries, and the retry runs the task
  function again. A check that raises `TaskTerminalError` ends the task without a retry.
- After a failed check the staging branch stays, so that you can look, for example with
  `lakectl fs ls lakefs://REPO/COMMIT/`. `perago gc` and the workers remove it: under `settled`
  after `PERAGO_GC_STAGING_TTL`, under the other policies with their next pass, at most
  `PERAGO_WORKSPACE_GC_INTERVAL` later. The log line `attempt checked` has commit and branch.
- Checks run where the task function runs: in an executor, with the same user, without the keys of
  lakeFS and Conductor (Spark tasks and thread mode are the stated exceptions).
  `perago.current_attempt()` works in them, and what they print and log is in the task log.
- Function and checks share `TaskControls(body_seconds=...)`, heartbeats and the order to stop.
- A local task shows its checks the directory of the attempt, which is what was staged. A Spark
  task shows them the staged commit, through its own session.
- The paths travel to the executor as one message of at most 16 MiB: for a local task those that
  changed, for a Spark task all of the prefix, which is about 150,000 paths.

[checked_orders](../../examples/checked_orders) has rules of pandera for a Parquet file, and a check
on Spark.
"""


PREFIX = """## A prefix with values of params

```python
# songs.py
from pathlib import Path

from perago import WorkspaceSpec, task
from pydantic import BaseModel


class Song(BaseModel):
    song: str


@task(
    name="songs.count",
    owner_email="you@example.com",
    workspace=WorkspaceSpec(prefix="songs/{params.song}", isolation="prefix"),
)
def count(workspace: Path, params: Song) -> Song:
    (workspace / "count.txt").write_text(str(len((workspace / "words.txt").read_text().split())))
    return params
```

`{params.NAME}` stands for the value of one field of the params model, by its Python name. It may be
a whole part of the path or a piece of one, and a prefix may have several. Other braces are part of
the folder's name.

- A name that is no field, or a field whose values are no name of a folder (a list, a model, a
  number with a fraction, a secret), is refused when the module is imported: by `check`, `register`,
  `start` and a test (`PRG-T023`).
- When an attempt begins, Perago validates the params and fills the prefix in, once: texts and whole
  numbers as they are, dates, UUIDs and members of an enum as in JSON.
- A value that is empty, has a slash or a backslash, is `.` or `..`, is longer than 255 bytes, or
  makes a reserved path ends the task without a retry (`PRG-I013`). Nothing was read or written.

Everything after that knows the resolved prefix only: guardrails, checks, Spark, the log, commit
metadata (`perago.prefix`), and the key of the logical execution, so that a retry with the same
params works on the same folder. `perago run` and `TaskEnvironment` show the directory as that
folder. [Several tasks on one branch](../how-to/several-tasks-on-one-branch.md) is an example.
"""


def checks_section() -> str:
    """Return the section: when checks run, and every part of the view that they get."""
    rows = "\n".join(f"| {name} | {meaning} |" for name, meaning in _view_rows())
    return f"{CHECKS}\n| `StagedView` | Meaning |\n| --- | --- |\n{rows}\n"


def _view_rows() -> Iterator[tuple[str, str]]:
    for kind, meaning in FILES.items():
        yield f"`{kind}`", meaning
    for name in ("paths", "size", "open", "spark", "read"):
        found = getattr(StagedView, name)
        given = "" if isinstance(found, property) else "(path)"
        yield f"`{name}{given}`", inspect.getdoc(found) or ""


def workspace_section() -> str:
    """Return the section: what a task publishes, what it is given, and what is refused."""
    return f"""## What a workspace holds

The regular files below the prefix, and nothing else.

{_table("On the disk", ON_DISK)}

{_table("In lakeFS", IN_LAKEFS)}
"""


def _table(head: str, rows: tuple[tuple[str, str], ...]) -> str:
    pairs = ((head, "What happens"), ("---", "---"), *rows)
    return "\n".join(f"| {name} | {fate} |" for name, fate in pairs)


FLOW = """## Workflow definitions

`perago workflow new MODULE...` writes the definition that runs the tasks of modules, and
`perago.testing.sequence` and `fork` build the same ones. `perago submit` starts such a workflow.

The input of such a workflow has two parts:

- `workspace`: repository, branch, and the commit of the head. The first task starts from it, or
  every branch of a fork.
- `params`: `params.REFERENCE` is for the task with this reference name, which is its name with `_`
  for dots and dashes. The second task of one name has `_2` behind it.

| What flows | From | To |
| --- | --- | --- |
| one after the other | `${REFERENCE.output.workspace}` | the next task with a workspace |
| `--fork`, down | `workspace`, `params.REFERENCE` | the workflow of the branch |
| `--fork`, up | `${REFERENCE.output.workspace}` of each branch | `perago.join` |
| `--fork`, joined | `${joined.output.result.workspace}` | what is behind the fork |
| `--transaction` | `${perago_begin.output.result.workspace}` | the first task, or every branch |
| `--transaction` | `${perago_begin.output.result.run}`, and the last workspace | `perago.finish` |

The output of a fork has `workspace`, and `results` with the result of each branch under its
reference name. Results flow nowhere by themselves: write `${REFERENCE.output.result.FIELD}` where a
task needs one. `perago submit` gives an empty object to each task that no `--params` names, so that
defaults hold, and refuses a name that the definition does not read. As far as the TaskDefs on
Conductor tell, it also refuses a misspelt field, and a field without a default that nothing gives
to a task that runs in every case. It does not see a value that only a validator of the model fills
in: give that one.

How this is used: [several tasks on one branch](../how-to/several-tasks-on-one-branch.md),
[a workflow as one transaction](../how-to/workflow-as-one-transaction.md).
"""


_ANSWERS = (
    (CancelSignal, "cancel.", ("is_set", "wait")),
    (CurrentAttempt, "", ("progress", "logger", "checkpoint", "changes")),
)


def attempt_section() -> str:
    """Return the section: what the function returns, and each part of it."""
    about = inspect.getdoc(current_attempt) or ""
    return f"""## perago.current_attempt()

{about}
"""


def attempt_rows() -> Iterator[tuple[str, str]]:
    """Each part with its meaning; facts with what the stand-in says."""
    stand_in = CurrentAttempt()
    for each in fields(stand_in):
        value = getattr(stand_in, each.name)
        if isinstance(value, str | int):
            yield f"`{each.name}`", f"`{value!r}` outside a worker"
    kept = "What an earlier attempt kept (`path`, `note`, `taken_at`), or None"
    yield "`resumed_from`", f"{kept}: [how to](../how-to/checkpoints.md)."
    for owner, prefix, names in _ANSWERS:
        for name in names:
            found = getattr(owner, name)
            call = "" if isinstance(found, property) else _arguments(found)
            yield f"`{prefix}{name}{call}`", _first_paragraph(found)


def _first_paragraph(found: object) -> str:
    """A row of a table has one line."""
    return (inspect.getdoc(found) or "").split("\n\n")[0].replace("\n", " ")


def _arguments(function: object) -> str:
    assert callable(function), "methods only"
    given = list(inspect.signature(function).parameters.values())[1:]
    # Python 3.13 calls a Path by the module that defines it.
    return f"({', '.join(map(str, given))})".replace("pathlib._local.", "pathlib.")
