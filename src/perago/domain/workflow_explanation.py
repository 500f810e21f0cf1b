"""What happened to a workflow and what to do, in three sentences.

`situation_of` is the table: it looks at the workflow and at the newest attempt of the task on which
it stands. `explain_workflow` puts that into words, with the next command. Asks no server.
"""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import takewhile

from perago.domain import attempt_history
from perago.domain.attempt import NO_DATA, AttemptStatus, WorkflowStatus
from perago.domain.commit_metadata import LOGICAL_TASK_KEY, RUN, RUN_TASKS
from perago.domain.error_codes import commands_in, filled, find_code
from perago.domain.lakefs import CommitId, CommitRecord
from perago.domain.names import RUN_BRANCH_PREFIX

# The reason is a part of the first of three sentences, and has to leave the other two in sight. The
# whole reason is in `perago attempts`.
REASON_CHARACTERS_MAX = 200
# Two ids of lakeFS alone would fill a reason up to where it names the cause.
_COMMIT_ID = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{52}\b")


class Situation(StrEnum):
    """What an operator has to know first."""

    UNKNOWN = "unknown"
    NOTHING_BEGAN = "nothing began"
    COMPLETED = "completed"
    QUEUED = "queued"
    RETRIES = "waits for its retry"
    RUNS = "runs"
    PAUSED = "paused"
    PUBLISHED = "published"
    DECIDED = "decided"
    REFUSED = "refused"
    FUNCTION_FAILED = "function failed"
    LOST = "lost"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Explanation:
    """Three sentences; the last one names the command."""

    situation: Situation
    happened: str
    left: str
    to_do: str
    command: str


def situation_of(
    workflow: attempt_history.WorkflowFacts, task: attempt_history.TaskHistory | None, now: datetime
) -> Situation:
    """Choose by the workflow, then by the newest attempt of its unfinished task.

    workflow                 newest attempt                            situation
    not known to Conductor                                             unknown
    completed                                                          completed
    paused                                                             paused
    any other                there is none                             nothing began
    running                  a retry before its time                   waits for its retry
    running                  in its queue                              queued
    running                  with a worker, or failed and retried      runs
    ended otherwise          its task has published, uncounted         published
    ended otherwise          its task has a decision                   decided
    ended otherwise          its reason is of the task function        function failed
    ended otherwise          its reason has a code                     refused
    ended otherwise          timed out                                 lost
    ended otherwise          anything else                             stopped

    A publication or a decision comes before the reason: the next attempt goes on from it whatever
    ended this one. A refusal for good is the exception, because no next attempt helps.
    """
    by_workflow = {
        None: Situation.UNKNOWN,
        WorkflowStatus.COMPLETED: Situation.COMPLETED,
        WorkflowStatus.PAUSED: Situation.PAUSED,
    }
    if workflow.status in by_workflow or task is None:
        return by_workflow.get(workflow.status, Situation.NOTHING_BEGAN)
    last = attempt_history.newest(task.attempts)
    if workflow.status is WorkflowStatus.RUNNING:
        if _ended_before(task) is not None and last.due is not None and now < last.due:
            return Situation.RETRIES
        is_queued = last.status is AttemptStatus.SCHEDULED
        return Situation.QUEUED if is_queued else Situation.RUNS
    for_good = last.status is AttemptStatus.FAILED_WITH_TERMINAL_ERROR or task.recorded is not None
    endings = (
        (bool(task.publications) and not for_good, Situation.PUBLISHED),
        (bool(task.decisions) and not for_good, Situation.DECIDED),
        (last.function_failed, Situation.FUNCTION_FAILED),
        (last.code is not None, Situation.REFUSED),
        (last.status is AttemptStatus.TIMED_OUT, Situation.LOST),
    )
    return next((each for holds, each in endings if holds), Situation.STOPPED)


def task_in_question(
    history: attempt_history.AttemptHistory, workflow_id: str
) -> attempt_history.TaskHistory | None:
    """The task on which a workflow stands: the newest that is not done, else the newest."""
    tasks = [task for task in history.tasks if task.workflow_id == workflow_id]
    if not tasks:
        return None

    def rank(task: attempt_history.TaskHistory) -> tuple[bool, int]:
        last = attempt_history.newest(task.attempts)
        seq = last.row.snapshot.seq if last.row else 0
        return (last.status is not AttemptStatus.COMPLETED, seq)

    return max(tasks, key=rank)


def _ended_before(task: attempt_history.TaskHistory) -> attempt_history.AttemptEvidence | None:
    """The attempt whose retry is in its queue, with the reason that the retry does not have."""
    last = attempt_history.newest(task.attempts)
    ended = [each for each in task.attempts if each.status and each.status.is_terminal]
    return (
        attempt_history.newest(ended) if last.status is AttemptStatus.SCHEDULED and ended else None
    )


def explain_workflow(
    history: attempt_history.AttemptHistory, workflow: attempt_history.WorkflowFacts, now: datetime
) -> Explanation:
    """Say what happened, what is left of it in lakeFS, and what to do next."""
    task = task_in_question(history, workflow.workflow_id)
    situation = situation_of(workflow, task, now)
    last = attempt_history.newest(task.attempts) if task is not None else None
    if task is not None and situation is Situation.RETRIES:
        last = _ended_before(task)
    names = _names(history, workflow, task, last)
    to_do, command = _next(situation, names, last)
    if task is not None and "MODULE" in to_do:
        to_do = f"{to_do} MODULE is the Python module that declares {_type(task)}."
    return Explanation(
        situation,
        _happened(situation, workflow, history, task, now),
        _left(history, workflow, task),
        to_do,
        command,
    )


def _happened(
    situation: Situation,
    workflow: attempt_history.WorkflowFacts,
    history: attempt_history.AttemptHistory,
    task: attempt_history.TaskHistory | None,
    now: datetime,
) -> str:
    name = f"Workflow {workflow.workflow_id}"
    tasks = [each for each in history.tasks if each.workflow_id == workflow.workflow_id]
    attempts = sum(len(each.attempts) for each in tasks)
    if situation is Situation.UNKNOWN:
        return f"{name} is not known to Conductor; lakeFS knows {attempts} of its attempts."
    if situation is Situation.COMPLETED:
        return f"{name} completed: tasks {len(tasks)}, attempts {attempts}."
    if task is None:
        why = f": {workflow.reason}" if workflow.reason else ""
        return f"{name} is {workflow.status}, and no task of it has an attempt{why}."
    last = attempt_history.newest(task.attempts)
    before = _ended_before(task)
    if before is None:
        return f"{name} is {workflow.status}: {_of_attempt(task, last)}."
    waits = _of_attempt(task, last)
    if situation is Situation.RETRIES and last.due is not None:
        waits = f"the next try, attempt {last.number}, is {at_and_in(last.due, now)}"
    return f"{name} is {workflow.status}: {_of_attempt(task, before)}; {waits}."


def at_and_in(moment: datetime, now: datetime) -> str:
    """A moment of the near future as a person waits for it."""
    seconds = max(0, round((moment - now).total_seconds()))
    return f"at {moment:%H:%M:%S} UTC (in {seconds} s)"


def _type(task: attempt_history.TaskHistory) -> str:
    """The name under which the task is declared, which its reference name need not be."""
    row = attempt_history.newest(task.attempts).row
    return row.snapshot.task_type if row is not None else task.name


def _of_attempt(task: attempt_history.TaskHistory, last: attempt_history.AttemptEvidence) -> str:
    who = f"attempt {last.number} of task {task.name}"
    worker = last.row.snapshot.worker_id if last.row else None
    match attempt_history.how_far(last):
        case attempt_history.Reached.QUEUED:
            return f"{who} waits in its queue{_in_domain(last)} and no worker has polled it"
        case attempt_history.Reached.HANDED_BACK:
            return (
                f"{who} was handed back and waits in its queue{_in_domain(last)} ({_reason(last)})"
            )
        case reached if last.status is AttemptStatus.IN_PROGRESS:
            return f"{who} is with worker {worker} and came to `{reached}`"
        case reached:
            on = f" on worker {worker}" if worker else ""
            why = f": {_reason(last)}" if last.reason else ""
            return f"{who} ended as {last.status}{on}, came to `{reached}`{why}{_repeated(task)}"


def _in_domain(last: attempt_history.AttemptEvidence) -> str:
    """Where its row waits; a worker without that domain polls another queue."""
    domain = _domain(last)
    return f" in the domain {domain}" if domain else ""


def _domain(last: attempt_history.AttemptEvidence | None) -> str | None:
    return last.row.domain if last is not None and last.row is not None else None


def _repeated(task: attempt_history.TaskHistory) -> str:
    """How many of the newest attempts ended with one code, where a retry was no help."""
    ended = [each for each in task.attempts if not each.is_queued_anew]
    codes = [each.code for each in reversed(ended)]
    same = len(list(takewhile(lambda code: code is not None and code == codes[0], codes)))
    return f"; its last {same} attempts ended with {codes[0]}" if same > 1 else ""


def _reason(last: attempt_history.AttemptEvidence) -> str:
    """The reason, shortened; its code, which stands at its end, is kept."""
    text = _COMMIT_ID.sub(r"\1", last.reason_with_code.rstrip("."))
    if len(text) <= REASON_CHARACTERS_MAX:
        return text
    kept, code = text[:REASON_CHARACTERS_MAX], last.code
    return f"{kept}..." if code is None or code in kept else f"{kept}... [{code}]"


def _left(
    history: attempt_history.AttemptHistory,
    workflow: attempt_history.WorkflowFacts,
    task: attempt_history.TaskHistory | None,
) -> str:
    count = _count(history, workflow)
    if task is None:
        return f"{count}."
    state = attempt_history.decision_state(task)
    decided = state is attempt_history.DecisionState.THERE
    if history.unanswered and not task.publications:
        known = f" has decided on {task.decisions[0].commit[:12]}, and" if decided else ""
        why = "which is not known, because a server did not answer"
        return f"Task {task.name}{known} may have published, {why}; {count}."
    if task.publications:
        record = task.publications[0]
        counted = "Conductor counts it" if task.recorded else "Conductor does not count it"
        run = _published_run(history, record)
        if run is not None:
            return f"The run was published as {run}, and {counted}."
        return f"Task {task.name} has published {record.commit[:12]} and {counted}; {count}."
    if decided:
        commit = task.decisions[0].commit[:12]
        return f"Task {task.name} has decided on {commit} and published nothing; {count}."
    return f"Task {task.name} has published nothing; {count}."


def _count(history: attempt_history.AttemptHistory, workflow: attempt_history.WorkflowFacts) -> str:
    """How many tasks have published, of those that an attempt is known of.

    Conductor makes a row only when a task is due, so the number is not that of the definition.
    """
    tasks = [each for each in history.tasks if each.workflow_id == workflow.workflow_id]
    on_runs = _only_on_runs(history)
    published = [{each.commit for each in task.publications} for task in tasks]
    done = sum(1 for commits in published if commits - on_runs)
    held = sum(1 for commits in published if commits and commits <= on_runs)
    read = [each for branch in history.branches for each in history.roles(branch)]
    foreign = sum(role is attempt_history.CommitRole.FOREIGN for _, role in read)
    # The branches of a fork are workflows of their own, and Conductor gives them ids of their own.
    inside = sum(
        record.metadata.get(LOGICAL_TASK_KEY, "").partition("/")[0] in workflow.children
        for record, _ in read
    )
    also = f"; {_commits(inside)} there by its child workflows" if inside else ""
    also += f"; {_commits(foreign)} there by others" if foreign else ""
    at_least = "at least " if history.unanswered else ""
    begun = f"of {len(tasks)} tasks that have begun"
    count = f"{at_least}{done} {begun} have a publication on a target branch{also}"
    if not held:
        return count
    repository = next(each.repository for each in history.branches if _is_of_run(each))
    look = f"perago runs {shlex.quote(repository)}"
    return f"{count}; {held} have theirs on a run, which `{look}` lists"


def _commits(number: int) -> str:
    return "1 commit" if number == 1 else f"{number} commits"


def _published_run(history: attempt_history.AttemptHistory, record: CommitRecord) -> str | None:
    """Where the commit stands that brought a run to its target; None of any other commit."""
    if RUN not in record.metadata:
        return None
    target = next((each for each in history.branches if record in each.commits), None)
    if target is None:
        return None
    tasks = record.metadata.get(RUN_TASKS, "an unknown number")
    where = f"branch {target.branch} of {target.repository}"
    return f"commit {record.commit[:12]} on {where}, with {tasks} publications of its tasks"


def _only_on_runs(history: attempt_history.AttemptHistory) -> frozenset[CommitId]:
    """Commits on the branch of a run; its target has them when `perago.finish` has published."""
    on_run, on_target = set[CommitId](), set[CommitId]()
    for each in history.branches:
        where = on_run if _is_of_run(each) else on_target
        where.update(record.commit for record in each.commits)
    return frozenset(on_run - on_target)


def _is_of_run(history: attempt_history.BranchHistory) -> bool:
    return history.branch.startswith(RUN_BRANCH_PREFIX)


_TO_DO = {
    Situation.UNKNOWN: "Look at what lakeFS has",
    Situation.NOTHING_BEGAN: "Look at the workflow in Conductor",
    Situation.COMPLETED: "Nothing has to be done; the branch shows what was published",
    Situation.QUEUED: "Start a worker that serves the module of this task; `perago doctor MODULE` "
    "shows which workers poll it",
    Situation.RUNS: "Wait, and look again",
    Situation.PAUSED: "Resume the workflow",
    Situation.PUBLISHED: "Retry the workflow; the next attempt finds the publication",
    Situation.DECIDED: "Retry the workflow; the next attempt publishes the decision and does not "
    "run the task function again",
    Situation.FUNCTION_FAILED: "Correct what the reason says and restart the worker, which has the "
    "code of its start; then retry the workflow",
    Situation.RETRIES: "Conductor tries again by itself; if that cannot help, correct what the "
    "reason says, and restart the worker after a change of its code",
    Situation.LOST: "Look why its worker did not answer in time, then retry the workflow",
    Situation.STOPPED: "Find out who stopped it, then retry the workflow",
}
# In every other situation the workflow is retried.
_COMMANDS = {
    Situation.UNKNOWN: "perago attempts WORKFLOW --repo REPO --tree",
    Situation.NOTHING_BEGAN: 'curl "$PERAGO_CONDUCTOR/workflow/WORKFLOW"',
    Situation.COMPLETED: "lakectl log lakefs://REPO/BRANCH",
    Situation.QUEUED: "perago start MODULE",
    Situation.RUNS: "perago attempts WORKFLOW",
    Situation.RETRIES: "perago attempts WORKFLOW",
    Situation.PAUSED: 'curl -X PUT "$PERAGO_CONDUCTOR/workflow/WORKFLOW/resume"',
}
_RETRY = 'curl -X POST "$PERAGO_CONDUCTOR/workflow/WORKFLOW/retry"'


def _next(
    situation: Situation, names: Mapping[str, str], last: attempt_history.AttemptEvidence | None
) -> tuple[str, str]:
    """What to do, and the command that does it or shows the next fact."""
    command = filled(_COMMANDS.get(situation, _RETRY), names)
    to_do, domain = _TO_DO.get(situation, ""), _domain(last)
    if situation is Situation.QUEUED and domain:
        command += f" --domain {shlex.quote(domain)}"
        to_do = (
            f"Start a worker with --domain {domain}, because one without it polls another queue;"
            " `perago doctor MODULE` shows which workers poll this one"
        )
    row = find_code(last.code) if last is not None and last.code else None
    if situation in {Situation.REFUSED, Situation.RETRIES} and row is not None:
        # A module may have several tasks, and only the workflow tells which one is meant.
        which = f"perago run MODULE --task {names['TASK']}"
        remedy = filled(row.remedy, names).replace("perago run MODULE --repo", f"{which} --repo")
        first, *_ = (*commands_in(remedy), f"perago explain {row.code}")
        # The head alone starts nothing, and a remedy of a code does not know the workflow.
        submit = names.get("SUBMIT")
        if not first.startswith("perago head ") or submit is None:
            return remedy, first
        return f"{remedy} `{submit}` does both; add the same --params.", submit
    return f"{to_do}.", command


def _names(
    history: attempt_history.AttemptHistory,
    workflow: attempt_history.WorkflowFacts,
    task: attempt_history.TaskHistory | None,
    last: attempt_history.AttemptEvidence | None,
) -> dict[str, str]:
    """What stands in place of the capital words of a remedy; only what is known."""
    read = ({"repository": each.repository, "branch": each.branch} for each in history.branches)
    row = last.row if last is not None else None
    given = attempt_history.workspace_in(row.input_data if row is not None else NO_DATA)
    workspace: Mapping[str, object] = given or next(read, NO_DATA)
    staged = [each.staged for each in task.attempts if each.staged] if task else []
    names = {
        "WORKFLOW": workflow.workflow_id,
        "REFERENCE": task.reference if task else None,
        "REPO": workspace.get("repository"),
        "BRANCH": workspace.get("branch"),
        "REF": workspace.get("ref"),
        "TASK": _type(task) if task else None,
        "CODE": last.code if last else None,
        "STAGED": staged[-1] if staged else None,
        "PUBLISHED": task.publications[0].commit if task and task.publications else None,
    }
    known = {name: shlex.quote(value) for name, value in names.items() if isinstance(value, str)}
    # The row of a task in a run names the run branch, and a workflow is started on its target.
    targets = [each for each in history.branches if not _is_of_run(each)]
    if workflow.name and targets:
        repository, branch = shlex.quote(targets[0].repository), shlex.quote(targets[0].branch)
        name = shlex.quote(workflow.name)
        known["SUBMIT"] = f"perago submit {name} --repo {repository} --branch {branch}"
    return known
