"""What a history says of the rows of workflows, beside the branches they published on.

Every completed row's output is on its branch; an execution key is published once; a row ends with
one output only, after the commit it names was made; a terminal failure says why.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tests.histories.branches import BRANCH_LOG
from tests.histories.exchange import END, Exchange, Json, as_list, as_map, as_text

EXECUTION_KEY = "perago.logical_execution_key"
CONDUCTOR = "conductor"
WORKFLOW = "a workflow"
COMPLETED = "COMPLETED"
TERMINAL = "FAILED_WITH_TERMINAL_ERROR"


@dataclass(slots=True)
class Rows:
    """What was found."""

    logs: dict[tuple[str, str], list[str]] = field(default_factory=dict[tuple[str, str], list[str]])
    keys: dict[tuple[str, str, str], list[str]] = field(
        default_factory=lambda: defaultdict[tuple[str, str, str], list[str]](list)
    )
    outputs: dict[str, set[str]] = field(default_factory=lambda: defaultdict[str, set[str]](set))
    made: dict[str, float] = field(default_factory=dict[str, float])
    """When a commit was first asked for."""
    wrong: list[str] = field(default_factory=list[str])
    completed: int = 0
    terminal: int = 0


def judge_rows(history: Sequence[Exchange]) -> Rows:
    """Look at every line once for what was made, then at what the rows say of it."""
    rows = Rows()
    for exchange in history:
        _look_at_commits(rows, exchange)
    for exchange in history:
        for row in _rows_in(exchange):
            _look_at_row(rows, exchange, row)
    for task, outputs in rows.outputs.items():
        if len(outputs) > 1:
            rows.wrong.append(f"row {task} is completed with {sorted(each for each in outputs)}")
    for (_, branch, key), commits in rows.keys.items():
        if len(commits) > 1:
            rows.wrong.append(f"execution {key} is published twice on {branch}: {commits}")
    return rows


def _look_at_commits(rows: Rows, exchange: Exchange) -> None:
    if exchange.server == END and exchange.path == BRANCH_LOG:
        facts = as_map(exchange.answer)
        place = as_text(facts.get("repository")), as_text(facts.get("branch"))
        commits = [as_map(each) for each in as_list(facts.get("commits"))]
        rows.logs[place] = [as_text(each.get("id")) for each in commits]
        for each in commits:
            key = as_text(as_map(each.get("metadata")).get(EXECUTION_KEY))
            if key:
                rows.keys[*place, key].append(as_text(each.get("id")))
    elif "/merge/" in exchange.path and exchange.succeeded:
        rows.made.setdefault(as_text(as_map(exchange.answer).get("reference")), exchange.asked)


def _rows_in(exchange: Exchange) -> Iterator[Mapping[str, Json]]:
    """Rows that were read, sent, or found at the end."""
    answer = as_map(exchange.answer if exchange.succeeded else None)
    if exchange.server == END and exchange.path == WORKFLOW:
        yield from _rows_of(answer)
    elif exchange.server == CONDUCTOR and exchange.method == "GET":
        yield from ([answer] if "taskId" in answer else _rows_of(answer))
    elif exchange.server == CONDUCTOR and exchange.path == "/api/tasks":
        yield as_map(exchange.request)


def _rows_of(workflow: Mapping[str, Json]) -> Iterator[Mapping[str, Json]]:
    for each in as_list(workflow.get("tasks")):
        yield as_map(each)


def _look_at_row(rows: Rows, exchange: Exchange, row: Mapping[str, Json]) -> None:
    task, status = as_text(row.get("taskId")), as_text(row.get("status"))
    at_the_end = exchange.server == END
    if status == TERMINAL:
        rows.terminal += at_the_end
        if not as_text(row.get("reasonForIncompletion")).strip():
            rows.wrong.append(f"row {task} has failed for good without a reason")
    if status != COMPLETED:
        return
    rows.completed += at_the_end
    workspace = as_map(as_map(row.get("outputData")).get("workspace"))
    if not workspace:
        return
    ref = as_text(workspace.get("ref"))
    place = as_text(workspace.get("repository")), as_text(workspace.get("branch"))
    rows.outputs[task].add(ref)
    if ref not in rows.logs.get(place, ()):
        rows.wrong.append(f"row {task} is completed with {ref[:12]}, not on {place[1]}")
    if rows.made.get(ref, exchange.asked) > exchange.asked:
        rows.wrong.append(f"row {task} is completed with {ref[:12]} before anybody asked for it")
