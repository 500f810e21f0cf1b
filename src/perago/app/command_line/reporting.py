"""What commands print and how they end: data on stdout, the rest on stderr, one exit code.

Every document of `--json` names its schema and version. `reports_errors` turns an exception into a
message and an exit code. Knows no command.
"""

import functools
import json
import sys
import traceback
import warnings
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Annotated, Any, ParamSpec

import typer

from perago.domain import errors
from perago.domain.attempt_history import NowhereToLookError
from perago.domain.error_codes import filled, find_code
from perago.domain.text import plain, plain_lines
from perago.ports.errors import OutcomeUnknownError, ServiceError

Arguments = ParamSpec("Arguments")


class CommandUsageError(errors.PeragoError, ValueError):
    """Arguments that do not fit together, or that name something that is not there."""

    code = "PRG-X003"


JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON document with a versioned schema.")
]
FAILED = 1  # the only code of failure that 0.6.1 had; its commands keep it
# As for every ServiceError: another try may help. A command that printed what the other server has
# ends with it too, because a script has to tell a whole answer from one with parts missing.
UNANSWERED = 6
CALLED: ContextVar[str | None] = ContextVar("called", default=None)
"""The command that runs now, with its group if it has one; its help is a remedy."""
# The finer codes are for commands of which 0.6.1 promised nothing; the first match counts.
_EXIT_CODES: tuple[tuple[type[BaseException], int], ...] = (
    (CommandUsageError, 2),
    (NowhereToLookError, 2),
    (errors.SeveralRunsError, 2),
    (errors.RuntimeConfigError, 3),
    (errors.SparkEnvironmentError, 3),
    (errors.PublishFenceError, 4),
    (errors.StaleAttemptError, 4),
    (errors.OutcomeUnknownAtDeadlineError, 5),
    (OutcomeUnknownError, 5),
    (ServiceError, UNANSWERED),
)


def say(text: str) -> None:
    """Print one line of data; the line breaks and escapes of a name in it are shown, not obeyed."""
    typer.echo(plain(text))


def say_lines(text: str) -> None:
    """Print data of several lines, all of them ours."""
    typer.echo(plain_lines(text))


def say_json(schema: str, document: Mapping[str, object]) -> None:
    """Print data as one JSON document; `schema` is a name with a version, like `check/1`."""
    typer.echo(json.dumps({"schema": f"perago.{schema}", **document}, indent=2))


def say_answer(
    schema: str, document: Mapping[str, object], lines: Iterable[str], *, as_json: bool
) -> None:
    """Print data as one JSON document, or line by line for a person."""
    if as_json:
        say_json(schema, document)
        return
    for line in lines:
        say(line)


def warn(text: str) -> None:
    """Print a warning."""
    typer.echo(plain(f"warning: {text}"), err=True)


def note(text: str) -> None:
    """Print a line that is neither data nor a problem."""
    typer.echo(plain(text), err=True)


def note_lines(text: str) -> None:
    """Print several of them, such as a traceback."""
    typer.echo(plain_lines(text), err=True)


@contextmanager
def python_warnings() -> Generator[None]:
    """Print Python's own warnings of the block as ours, without the place in our code."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield
        finally:  # also when the block raises: a warning often says what led to the error
            for each in caught:
                warn(str(each.message))


def reports_errors(
    function: Callable[Arguments, None], *, finer_exit_codes: bool = True
) -> Callable[Arguments, None]:
    """Let a command end with `error: ...`, code and remedy, and an exit code by class."""

    @functools.wraps(function)
    def run(*args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
        try:
            function(*args, **kwargs)
        except (typer.Exit, typer.Abort):
            raise
        except BrokenPipeError:
            raise  # the reader, such as `head`, has enough; the command line ends without a word
        except Exception as error:
            _report(error, as_json=bool(kwargs.get("as_json")))
            raise typer.Exit(_exit_code(error) if finer_exit_codes else FAILED) from error

    return run


class CommandGroup(typer.Typer):
    """Commands below one word, such as `perago fence`; the word alone shows what there is."""

    def __init__(self, help_text: str) -> None:
        super().__init__(
            help=help_text,
            no_args_is_help=True,
            add_completion=False,
            rich_markup_mode=None,
            pretty_exceptions_enable=False,
        )
        self.callback()(lambda: None)  # without one, a group of one command would be that command

    def subcommand(
        self, name: str, short_help: str | None = None
    ) -> Callable[[Callable[Arguments, None]], Callable[Arguments, None]]:
        """Add a command, which ends as every command does."""

        def added(function: Callable[Arguments, None]) -> Callable[Arguments, None]:
            @functools.wraps(function)
            def called(*args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
                # The help of the group alone shows none of the arguments.
                CALLED.set(f"{CALLED.get()} {name}")
                function(*args, **kwargs)

            self.command(name, short_help=short_help)(reports_errors(called))
            return function

        return added


def _report(error: Exception, *, as_json: bool) -> None:
    code, message = _code_of(error), str(error)
    if code == errors.PeragoError.code:
        # An error without a code is a defect of Perago, and its traceback shows where.
        note_lines("".join(traceback.format_exception(error)).rstrip())
        message = f"{type(error).__name__}: {error}"
    note_lines(f"error: {message}")
    for each in getattr(error, "__notes__", []):
        note_lines(each)
    row = find_code(code)  # a foreign adapter may have codes of its own
    if row is not None:
        called = CALLED.get()
        names = {} if called is None else {"COMMAND": called}
        row = replace(row, remedy=filled(row.remedy, names))
        note(f"  {row.code}: {row.remedy} (perago explain {row.code})")
    if as_json:
        facts: dict[str, Any] = {"message": message, "type": type(error).__name__}
        if row is not None:
            facts |= {"code": row.code, "cause": row.cause, "remedy": row.remedy}
        say_json("error/1", {"error": facts})
    sys.stdout.flush()


def _code_of(error: Exception) -> str:
    if isinstance(error, errors.PeragoError | ServiceError):
        return error.code
    return "PRG-X004" if isinstance(error, OSError) else errors.PeragoError.code


def _exit_code(error: Exception) -> int:
    return next((code for kind, code in _EXIT_CODES if isinstance(error, kind)), FAILED)
