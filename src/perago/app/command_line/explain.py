"""`perago explain`: the long form of an error code, or what a workflow needs."""

import re
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from perago.app.command_line.attempts import inspection_tools
from perago.app.command_line.reporting import UNANSWERED, JsonOption, note, say_answer
from perago.app.command_line.services import LeftRepository, ask
from perago.app.inspection.attempts import Question, gather
from perago.app.settings.settings import load_settings
from perago.domain.attempt_history import AttemptHistory
from perago.domain.error_codes import UnknownCodeError, error_codes, find_code
from perago.domain.lakefs import RepositoryId
from perago.domain.workflow_explanation import explain_workflow

if TYPE_CHECKING:
    from perago.app.container import Container

# Codes in the ways that people write them; ids of workflows are longer.
_CODE = re.compile(r"(PRG)?-?[A-Z]*-?\d{0,4}", re.IGNORECASE)


def explain(
    subject: Annotated[
        str | None,
        typer.Argument(metavar="CODE|WORKFLOW_ID", help="For example PRG-U001."),
    ] = None,
    *,
    repository: LeftRepository = None,
    as_json: JsonOption = False,
) -> None:
    """Explain an error code, or say what happened to a workflow and what to do next.

    Without an argument, list all codes. If a service did not answer, what the other one knows of a
    workflow is shown, with what is missing, and the exit code is 6.
    """
    if subject is None:
        _list(as_json=as_json)
    elif _CODE.fullmatch(subject):
        _explain_code(subject, as_json=as_json)
    else:
        _explain_workflow(subject, repository, as_json=as_json)


def _explain_code(code: str, *, as_json: bool) -> None:
    row = find_code(code.upper())
    if row is None:
        raise UnknownCodeError(code)
    text = (
        f"{row.code}: {row.cause}\n"
        f"Family {row.family}, severity {row.severity}, retried: {row.retried}.\n\n"
        f"{row.text}\n\nRemedy: {row.remedy}\nMore: {row.page}"
    )
    say_answer("explain/1", asdict(row), text.splitlines(), as_json=as_json)


def _explain_workflow(workflow: str, repository: RepositoryId | None, *, as_json: bool) -> None:
    settings = load_settings()
    question = Question(workflow, repository, decisions_kept=settings.gc_tag_ttl)

    async def read(services: "Container") -> tuple[AttemptHistory, datetime]:
        return await gather(inspection_tools(services), question), services.clock().now()

    history, now = ask(read, settings)
    explanation = explain_workflow(history, history.workflows[0], now)
    document = {"workflow": workflow, **asdict(explanation), "missing": list(history.missing)}
    sentences = (explanation.happened, explanation.left, explanation.to_do)
    lines = (*sentences, f"  {explanation.command}")
    say_answer("explain-workflow/1", document, lines, as_json=as_json)
    if not as_json:
        for text in history.missing:
            note(f"missing: {text}")
    if history.unanswered:
        raise typer.Exit(UNANSWERED)


def _list(*, as_json: bool) -> None:
    codes = [{"code": row.code, "cause": row.cause} for row in error_codes().values()]
    lines = (f"{each['code']}  {each['cause']}" for each in codes)
    say_answer("explain-list/1", {"codes": codes}, lines, as_json=as_json)
