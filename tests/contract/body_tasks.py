"""Task functions for the suite of task bodies, importable by an executor of its own."""

import logging
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel

from perago.app.authoring.current_attempt import current_attempt
from perago.app.authoring.metrics import MetricRecorder
from perago.app.authoring.task_declaration import task, task_of
from perago.app.authoring.task_definition import MetricSpec
from perago.app.authoring.workspace_spec import StagedView, WorkspaceSpec
from perago.app.worker import frames
from perago.domain.errors import TaskTerminalError

UNSENDABLE: dict[str, float | str] = {
    "nan": float("nan"),
    "half a character": "\udcff",
    "huge": "x" * 11_000_000,
}


class Order(BaseModel):
    """What the function is to do."""

    what: str
    number: int = 0


class Answer(BaseModel):
    """What it did."""

    number: int | float | str


@task(
    name="body.suite",
    owner_email="data@example.com",
    metrics=MetricSpec(),
)
def obey(params: Order, metrics: MetricRecorder) -> Answer:  # noqa: C901 - one case a thing to do
    """Do what the parameters say."""
    match params.what:
        case "raise":
            raise KeyError("shelf")
        case "raise terminal":
            raise TaskTerminalError("wrong customer")
        case "exit":
            sys.exit(3)
        case "sleep" | "sleep with programs running" as how:
            _start_programs(how)
            time.sleep(params.number)  # noqa: TID251 - a body may well sleep
        case keep if keep.startswith("keep "):
            current_attempt().checkpoint(keep.removeprefix("keep "), note={"number": params.number})
        case "changes":
            return Answer(number=_changes(params.number))
        case told if told.startswith("tell "):
            _tell(told.removeprefix("tell "), metrics)
        case "talk":
            sys.stdout.write("printed\nwithout an end")
            logging.getLogger("team").warning("logged %d", params.number)
            current_attempt().progress("half way", rows=params.number)
            metrics.histogram("rows", params.number)
        case "environment":
            return Answer(number=sum("hunter2secret" in value for value in os.environ.values()))
        case _:
            _forge_or_end(params.what)
    return Answer(number=UNSENDABLE.get(params.what, params.number))


def _changes(threads: int) -> str:
    """What each of these threads is answered, once."""
    attempt = current_attempt()
    with ThreadPoolExecutor() as pool:
        asked = [pool.submit(attempt.changes) for _ in range(threads)]
        found = {attempt.changes(), *(each.result() for each in asked)}
    return " ".join(f"{each.since}: {each.added}" if each else "everything" for each in found)


class Unprintable:
    """A value of an author's class whose text cannot be made."""

    def __str__(self) -> str:
        """Fail, as a broken class does."""
        raise LookupError("no text")


def _tell(what: str, metrics: MetricRecorder) -> None:
    """Hand over what the type hints forbid: authors do, and no checker stops them."""
    odd: Any = {"shard": 3, 7: None}
    match what:
        case "sample of nan":
            metrics.histogram("rows", float("nan"))
            metrics.gauge("rows", float("-inf"))
        case "sample of no number":
            metrics.gauge("rows", cast("float", "many"))
        case "labels that are numbers":
            metrics.gauge("rows", 1, labels=odd)
        case "labels that are no mapping":
            metrics.gauge("rows", 1, labels=cast("dict[str, str]", [1, 2]))
        case "labels that raise":
            metrics.gauge("rows", 1, labels=cast("dict[str, str]", {"a": Unprintable()}))
        case "a huge label":
            metrics.gauge("rows", 1, labels={"a": "x" * 20_000_000})
        case _:
            _tell_progress(what)


def _tell_progress(what: str) -> None:
    match what:
        case "progress that is no text":
            current_attempt().progress(cast("str", 5), rows=3, model=(1, 2))
        case "progress that raises":
            current_attempt().progress("half way", model=Unprintable())
        case "huge progress":
            logging.getLogger("team").warning("\x00" * 3_000_000)
            current_attempt().progress("x" * 20_000_000)
        case "a record made by hand":
            made = logging.makeLogRecord({"levelno": 30.5, "name": 5, "msg": "by hand"})
            logging.getLogger("team").handle(made)
        case _:
            logging.getLogger("team").warning("name \udcff")
            current_attempt().progress("name \udcff", name="\udcff")


def _start_programs(how: str) -> None:
    """One that belongs to the body, and one that leaves its group to live on."""
    for apart in (False, True) if how.endswith("running") else ():
        subprocess.Popen(["sleep", "600"], start_new_session=apart)  # noqa: S607 - as below


def _forge_or_end(what: str) -> None:
    if what == "forge":
        forged = frames.Ended("of somebody else", {"number": 99})
        os.write(int(sys.argv[1]), frames.encode(forged))
    if what == "ask past the asker":
        for _ in range(5):
            asked = frames.ChangesAsked(current_attempt().execution_id)
            os.write(int(sys.argv[1]), frames.encode(asked))
        current_attempt().changes()
    if what == "crash with a program running":
        program = subprocess.Popen(["sleep", "600"])  # noqa: S607 - found by PATH
        sys.stderr.write(f"it left process {program.pid}\n")
        what = "crash"
    if what == "crash":
        sys.stderr.write("the disk is on fire\n")
        sys.stderr.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "leave":
        os._exit(7)


def judge(view: StagedView) -> None:
    """Do what the staged file says."""
    with view.open("order.txt") as file:
        match file.read():
            case b"raise":
                raise KeyError("shelf")
            case b"exit":
                sys.exit(3)
            case b"sleep":
                time.sleep(2)  # noqa: TID251 - a check may well sleep
            case b"environment":
                assert not any("hunter2secret" in value for value in os.environ.values())
            case _:
                assert view.added == ("order.txt",)
                assert view.paths == ("kept.txt", "order.txt")


@task(
    name="body.checked",
    owner_email="data@example.com",
    workspace=WorkspaceSpec(checks=[judge]),
)
def stage(workspace: Path, params: Order) -> Answer:
    """Never called: calls of the suite run its checks."""
    raise AssertionError(workspace, params)


OBEY = task_of(obey)
CHECKED = task_of(stage)
