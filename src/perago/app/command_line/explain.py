"""`perago explain`: the long form of an error code.

Prints what the table of codes says; knows no error itself.
"""

from typing import Annotated

import typer

from perago.app.command_line.reporting import JsonOption, reports_errors, say, say_json, say_lines
from perago.domain.error_codes import ERROR_CODES, UnknownCodeError, find_code


@reports_errors
def explain(
    code: Annotated[str | None, typer.Argument(metavar="CODE", help="Such as PRG-U001.")] = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Explain an error code; without one, list them all."""
    if code is None:
        _list(as_json=as_json)
        return
    row = find_code(code.upper())
    if row is None:
        raise UnknownCodeError(code)
    if as_json:
        facts = {"code": row.code, "cause": row.cause, "remedy": row.remedy, "text": row.text}
        say_json("explain/1", facts)
        return
    say_lines(f"{row.code}: {row.cause}\n\n{row.text}\n\nRemedy: {row.remedy}")


def _list(*, as_json: bool) -> None:
    if as_json:
        codes = [{"code": row.code, "cause": row.cause} for row in ERROR_CODES.values()]
        say_json("explain-list/1", {"codes": codes})
        return
    for row in ERROR_CODES.values():
        say(f"{row.code}  {row.cause}")
