"""`perago run MODULE`: one attempt on a copy of a directory, or of a commit, on servers in memory.

Prints result, guardrails and difference; writes back only when told to. A lakeFS is only read.
"""

import asyncio
import json
import tempfile
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from shlex import quote
from typing import Annotated, cast
from urllib.parse import urlsplit

import typer

from perago.app.authoring.task_definition import TaskDefinition
from perago.app.command_line import reporting
from perago.app.command_line.loading import TaskOption, load_one_task
from perago.app.command_line.params import json_object
from perago.app.connections import connections_of
from perago.app.pipeline_parts import transfer_bar
from perago.app.settings.settings import load_settings
from perago.domain.lakefs import RepositoryId
from perago.ports.workspace import WorkspaceSource
from perago.testing.file_trees import Files, diff_lines, read_tree, write_back
from perago.testing.trial import TaskRun, run_task_once, trial_prefix


def run(  # noqa: PLR0913 - one parameter an option
    target: Annotated[
        str, typer.Argument(metavar="MODULE", help="Importable name of a task module.")
    ],
    *,
    name: TaskOption = None,
    workspace: Annotated[
        Path | None, typer.Option(help="Directory to run on; the task works on a copy.")
    ] = None,
    repo: Annotated[
        str | None, typer.Option(help="lakefs://repository/ref to read the workspace from.")
    ] = None,
    params: Annotated[str, typer.Option(help="Parameters: JSON, or a file of JSON.")] = "{}",
    diff: Annotated[bool, typer.Option("--diff", help="Print the changes line by line.")] = False,
    write: Annotated[
        bool, typer.Option("--write", help="Write the changes back to --workspace.")
    ] = False,
    as_json: reporting.JsonOption = False,
) -> None:
    """Run one task once, without a server."""
    task = load_one_task(target, name)
    _check_options(task, workspace, repo, write=write)
    given = read_json_option("--params", params)
    _warn_of_unknown_params(task, given)
    prefix = trial_prefix(task, given)
    with tempfile.TemporaryDirectory(prefix="perago-run-") as directory:
        source = workspace
        if repo is not None:
            source = Path(directory)
            asyncio.run(_download(prefix, repo, source))
        files: Files = {}
        if source is not None:
            files = read_tree(source, prefix=prefix)
        with run_task_once(task, given, files) as done:
            _print(task, done, diff=diff, as_json=as_json)
            if done.completed and write and workspace is not None:
                write_back(workspace, done.before, done.files)
                reporting.note(f"wrote the changes to {workspace}")
    if not done.completed:
        raise typer.Exit(reporting.FAILED)


def read_json_option(option: str, text: str, *, of_workflow: bool = False) -> Mapping[str, object]:
    """A JSON object from the text of an option, or from the file that the text names.

    It is the params of a task, or the whole input of a workflow.
    """
    wanted = f"{option} expects a JSON object such as '{{\"name\": 1}}', or a file with one"
    source = text
    if not text.lstrip().startswith(("{", "[", '"')):
        try:
            source = Path(text).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            name, equals, value = text.partition("=")
            *above, field = parts = name.split(".")
            if not (equals and all(part.isidentifier() for part in parts)):
                raise reporting.CommandUsageError(f"{wanted}: {error}") from error
            # As `perago submit` takes it, where REFERENCE. says for which task a field is.
            meant: dict[str, object] = {field: _json_or_text(value)}
            if of_workflow and above:
                for each in reversed(
                    above if above[0] in {"params", "workspace"} else ["params", *above]
                ):
                    meant = {each: meant}
            hint = f"write {option} {quote(json.dumps(meant))}"
            raise reporting.CommandUsageError(f"{wanted}; found {text!r}: {hint}") from error
    return json_object(source, wanted)


def _json_or_text(value: str) -> object:
    try:
        return cast("object", json.loads(value))
    except ValueError:
        return value


def _warn_of_unknown_params(task: TaskDefinition, given: Mapping[str, object]) -> None:
    """An open task ignores what its model does not name: here that is a slip of the pen."""
    if task.strict_params:
        return  # the attempt refuses them
    schema = task.params_model.model_json_schema(mode="validation")
    known = {*schema.get("properties", {}), *task.params_model.model_fields}
    for name in sorted(given.keys() - known):
        near = get_close_matches(name, known, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        reporting.warn(f"the task has no parameter {name}; it is ignored{hint}")


def _check_options(
    task: TaskDefinition, workspace: Path | None, repo: str | None, *, write: bool
) -> None:
    if (workspace is not None) + (repo is not None) != int(task.has_workspace):
        wanted = "one of --workspace and --repo, for example --workspace DIRECTORY"
        if not task.has_workspace:
            wanted = "no workspace: leave --workspace and --repo out"
        raise reporting.CommandUsageError(f"{task.name} takes {wanted}")
    if workspace is not None and not workspace.is_dir():
        raise reporting.CommandUsageError(f"--workspace: {workspace} is not a directory")
    if write and workspace is None:
        raise reporting.CommandUsageError("--write needs --workspace")


async def _download(prefix: str, address: str, directory: Path) -> None:
    """The workspace of a commit, by the same pipeline that attempts use; lakeFS is only read."""
    from perago.app.container import Container  # noqa: PLC0415  # heavy, and needed late

    parts = urlsplit(address)
    ref = parts.path.strip("/")
    if parts.scheme != "lakefs" or not parts.netloc or not ref:
        text = f"--repo: expected lakefs://repository/ref, found {address}"
        raise reporting.CommandUsageError(text)
    with transfer_bar() as progress:
        container = Container(connections=connections_of(load_settings()), progress=progress)
        lakefs = container.lakefs()
        try:
            repository = RepositoryId(parts.netloc)
            commit = (await lakefs.commits.read(repository, ref)).commit
            source = WorkspaceSource(repository, commit, prefix)
            await container.pipeline().materialise(source, directory)
            reporting.note(f"read lakefs://{repository}/{commit}, prefix {prefix}")
        finally:
            await lakefs.close()


def _print(task: TaskDefinition, done: TaskRun, *, diff: bool, as_json: bool) -> None:
    if as_json:
        reporting.say_json("run/1", _document(task, done))
        return
    for line in done.lines:
        reporting.note(f"| {line}")
    for verdict in done.guardrails:
        said = "holds" if verdict.holds else verdict.violation
        reporting.say(f"{verdict.phase} {verdict.kind}({verdict.path!r}): {said}")
    _print_changes(done, diff=diff)
    for warning in done.warnings:
        reporting.warn(warning)
    if done.traceback:
        reporting.note_lines(done.traceback.rstrip())
    if done.completed:
        reporting.say(f"result: {json.dumps(done.result, sort_keys=True)}")
    else:
        reporting.say(f"{done.status}: {done.reason}")


def _print_changes(done: TaskRun, *, diff: bool) -> None:
    found = done.diff
    for mark, paths in (("+", found.added), ("~", found.changed), ("-", found.removed)):
        for path in paths:
            reporting.say(f"{mark} {path}")
    if diff:
        for line in diff_lines(done.before, done.files):
            reporting.say(line)


def _document(task: TaskDefinition, done: TaskRun) -> dict[str, object]:
    found = done.diff
    return {
        "task": task.name,
        "status": done.status,
        "result": done.result,
        "reason": done.reason,
        "guardrails": [
            {"phase": v.phase, "kind": v.kind, "path": v.path, "violation": v.violation}
            for v in done.guardrails
        ],
        "changes": {"added": found.added, "changed": found.changed, "removed": found.removed},
        "lines": list(done.lines),
    }
