"""The table of commands: a name, where its function or group lives, and its line in the help.

A new command is one row and one module. Nothing named here is imported before it is called. Every
command ends as `reporting` says, with its error, a remedy and an exit code.
"""

from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from perago._version import __version__


@dataclass(frozen=True)
class CommandRow:
    """One command: `home` is `module:name`, in this package or by its full dotted name.

    Commands that bring servers of their own live above the application, in `perago.testing`.
    """

    name: str
    home: str
    summary: str


COMMANDS = (
    CommandRow("demo", "perago.testing.demo:demo", "Show what Perago does when something fails."),
    CommandRow("dev", "perago.testing.dev:dev", "Run a workflow here and show it on a page."),
    CommandRow(
        "run", "perago.testing.trial_command:run", "Run one task on a directory, without a server."
    ),
    CommandRow("check", "check:check", "Validate task modules and local runtime config."),
    CommandRow("extract", "check:extract", "Write the Conductor TaskDef of one task."),
    CommandRow("start", "start:start", "Run a worker for task modules."),
    CommandRow("register", "definitions:register", "Create or update TaskDefs on Conductor."),
    CommandRow("workflow", "definitions:app", "Write workflow definitions for tasks."),
    CommandRow("submit", "submit:submit", "Start a workflow on the head of a branch."),
    CommandRow("head", "submit:head", "Print the commit id of the head of a branch."),
    CommandRow("fence", "fence:app", "Install, verify or remove the publication fence."),
    CommandRow("gc", "gc:gc", "Remove what ended attempts and workflows left behind."),
    CommandRow("doctor", "doctor:doctor", "Find out why nothing runs or publishes."),
    CommandRow("attempts", "attempts:attempts", "Show every attempt of a workflow or a branch."),
    CommandRow("watch", "watch:watch", "Show a workflow on a page that follows it."),
    CommandRow("reset-task", "runs:reset_task", "Discard a task's result, so that it runs again."),
    CommandRow("forget", "runs:reset_task", "The old name of reset-task."),
    CommandRow("diff", "runs:diff", "Show what a run or a staged commit would change."),
    CommandRow("runs", "runs:runs", "List runs that are not published."),
    CommandRow("abandon", "runs:abandon", "Remove a run that will not be finished."),
    CommandRow("verify", "spark:verify", "Find damaged objects of a commit (needs Spark)."),
    CommandRow("report", "spark:report_group", "Count publications of a branch (needs Spark)."),
    CommandRow("spark", "spark:spark_group", "Fetch the jars that Spark tasks need."),
    CommandRow(
        "servers", "servers:servers_group", "Run lakeFS and Conductor here, to try things out."
    ),
    CommandRow("config", "config:app", "Show settings and where they come from."),
    CommandRow("explain", "explain:explain", "Explain an error code, or what a workflow needs."),
    CommandRow("version", "config:version", "Print the version."),
)

# Three commands of 0.6.1, which has one code of failure, and the demo, which can fail in one way.
_ONE_FAILURE = frozenset({"check", "extract", "start", "demo"})
# Homes in the table are below this package unless they are complete names.
_PACKAGE = __name__.rpartition(".")[0]


class LazyCommand(TyperCommand):
    """Stands in the help for a command; its module is imported when the command is called."""

    def __init__(self, row: CommandRow) -> None:
        super().__init__(row.name, help=row.summary, rich_markup_mode=None)
        self._row = row

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: Any = None,  # noqa: ANN401  # typer keeps the type to itself
        **extra: Any,  # noqa: ANN401  # typer keeps the types to itself
    ) -> Any:  # noqa: ANN401  # typer keeps the type to itself
        """Hand over to the command itself."""
        command: Any = typer.main.get_command(_load(self._row))
        return command.make_context(info_name, args, parent, **extra)


def program() -> TyperGroup:
    """Return the whole command line."""
    app = _plain_typer()
    app.callback(invoke_without_command=True)(_perago)
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup), "an app with a callback is a group"
    for row in COMMANDS:
        group.add_command(LazyCommand(row), row.name)
    return group


def _perago(
    context: typer.Context,
    *,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Perago runs Conductor tasks on lakeFS workspaces."""
    if version:
        typer.echo(__version__)
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(code=2)


def find_command(row: CommandRow) -> object:
    """Import what a row names: a function, or a group of commands."""
    module, _, name = row.home.partition(":")
    full_name = module if "." in module else f"{_PACKAGE}.{module}"
    found: object = getattr(import_module(full_name), name)
    return found


def _load(row: CommandRow) -> typer.Typer:
    # Here, because a `--version` has no use for what reporting imports.
    from perago.app.command_line.reporting import CALLED, reports_errors  # noqa: PLC0415

    CALLED.set(row.name)
    found: Any = find_command(row)
    if isinstance(found, typer.Typer):
        return found
    app = _plain_typer(add_completion=False)
    app.command(row.name)(reports_errors(found, finer_exit_codes=row.name not in _ONE_FAILURE))
    return app


def _plain_typer(*, add_completion: bool = True) -> typer.Typer:
    return typer.Typer(
        add_completion=add_completion, rich_markup_mode=None, pretty_exceptions_enable=False
    )
