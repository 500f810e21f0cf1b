"""`perago start`: run a worker for task modules until it is told to stop.

Checks come first, in the order of 0.6.1; exit codes tell drained (0), aborted (128 + signal) and
broken (70).
"""

import os
from threading import Event, Thread, main_thread
from typing import Annotated

import typer

from perago.app.authoring.task_declaration import load_module_tasks
from perago.app.command_line.loading import Targets, load_tasks
from perago.app.command_line.reporting import python_warnings
from perago.app.settings.runtime_config import runtime_config
from perago.app.settings.settings import ExecutionMode, Settings, load_settings
from perago.app.worker.executor import ExecutorStartError
from perago.domain.errors import RuntimeConfigError

# After the main thread: time for the exit handlers of libraries. Python then waits without a limit
# for other threads, and one of them may wait for an answer that never comes.
LEAVE_SECONDS = 2.0


def start(
    targets: Targets,
    *,
    processes: Annotated[
        int, typer.Option("-j", "--processes", min=1, help="How many task functions run at once.")
    ] = 1,
    execution_mode: Annotated[
        ExecutionMode | None,
        typer.Option("--execution-mode", help="Where task functions run."),
    ] = None,
    domain: Annotated[
        str | None, typer.Option("--domain", help="Conductor domain to poll every task from.")
    ] = None,
    strict_taskdef: Annotated[
        bool,
        typer.Option(
            "--strict-taskdef", help="Refuse to start if a TaskDef differs from the code."
        ),
    ] = False,
) -> None:
    """Run a worker for task modules."""
    flags = {} if execution_mode is None else {"PERAGO_EXECUTION_MODE": execution_mode}
    settings = load_settings(flags=flags)
    for target in targets:
        runtime_config(settings, target)
    from perago.app.start_worker import check_conductor  # noqa: PLC0415  # heavy

    check_conductor(settings)
    code = _start(settings, targets, processes, domain, strict=strict_taskdef)
    _leave_with_main_thread(code)
    if code:
        raise typer.Exit(code)


def _leave_with_main_thread(code: int) -> None:
    """End this process a moment after its main thread: Python waits for every other thread.

    One of them may wait for a slow line, while everything that has to be closed is closed by now.
    This belongs to the command and not to the worker, because who runs a worker in a process of
    his own goes on after it.
    """

    def leave() -> None:
        main_thread().join()
        Event().wait(LEAVE_SECONDS)
        os._exit(code)

    Thread(target=leave, name="perago-leave", daemon=True).start()


def _start(
    settings: Settings, targets: list[str], slots: int, domain: str | None, *, strict: bool
) -> int:
    try:
        tasks = [task for target in targets for task in load_module_tasks(target)]
    except Exception:  # noqa: BLE001 - said again, with the author's own lines
        tasks = load_tasks(targets)
    from perago.app.start_worker import check_services, start_worker  # noqa: PLC0415  # heavy
    from perago.app.worker_assembly import StartOrder  # noqa: PLC0415  # heavy

    check_services(settings, tasks)
    with python_warnings():
        load_tasks(targets)
    order = StartOrder(settings, targets, tasks, slots, strict_taskdef=strict, domain=domain)
    try:
        return start_worker(order)
    except ExecutorStartError as error:
        text = f"an executor cannot run the task modules: {error}"
        raise RuntimeConfigError(text, code="PRG-T011") from error
