"""The table of commands: a name, where its function or group lives, and its line in the help.

A new command is one row and one module. Nothing named here is imported before it is called.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class CommandRow:
    """One command: `home` is `module:name`, in this package or by its full dotted name.

    Commands that bring a world of their own live above the application, in `perago.testing`.
    """

    name: str
    home: str
    summary: str


COMMANDS = (
    CommandRow("demo", "perago.testing.demo.command:demo", "Show what happens when things fail."),
    CommandRow(
        "dev", "perago.testing.dev.command:dev", "Run a workflow here and show it on a page."
    ),
    CommandRow(
        "run", "perago.testing.trial.command:run", "Run one task on a directory, without a server."
    ),
    CommandRow("check", "check:check", "Validate task modules and local runtime config."),
    CommandRow("extract", "extract:extract", "Write the Conductor TaskDef of one task."),
    CommandRow("start", "start:start", "Run a worker for task modules."),
    CommandRow("register", "register:register", "Create or update TaskDefs on Conductor."),
    CommandRow("fence", "fence:app", "Install, verify or remove the publication fence."),
    CommandRow("gc", "gc:gc", "Remove what crashed attempts left."),
    CommandRow("reset-task", "reset_task:reset_task", "Let a task be computed anew."),
    CommandRow("forget", "reset_task:reset_task", "The old name of reset-task."),
    CommandRow(
        "verify", "verify:verify", "Read every object of a commit and find damage, on Spark."
    ),
    CommandRow("report", "report:app", "Count publications of a branch, on Spark."),
    CommandRow("spark", "spark:app", "Fetch the jars that Spark tasks need."),
    CommandRow("config", "config:app", "Show settings and where they come from."),
    CommandRow("explain", "explain:explain", "Explain an error code."),
    CommandRow("version", "version:version", "Print the version."),
)
