"""Every stable error code of Perago: what happened, how bad it is, what to do.

The texts are data, in `error_codes.toml` beside this file. Nothing is read before a code is asked
for, because most runs of a command never ask.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import cast

from perago.domain.errors import PeragoError

# A word of a remedy that a person replaces, such as REPO; part of no variable's name.
_PLACEHOLDER = re.compile(r"(?<![A-Z_$a-z0-9])[A-Z][A-Z_]+(?![A-Z_=a-z])")
_IN_BACKTICKS = re.compile(r"`([^`]+)`")


class Severity(StrEnum):
    """What an operator has to do about an error."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"


class Retried(StrEnum):
    """Whether Perago lets Conductor retry an attempt that ends with the error."""

    YES = "yes"
    NO = "no"
    NOT_UNDER_SETTLED = "not under settled"
    DOES_NOT_APPLY = "does not apply"


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """What `perago explain` prints of one code."""

    code: str
    family: str
    severity: Severity
    retried: Retried
    cause: str
    remedy: str
    text: str
    page: str


class UnknownCodeError(PeragoError, ValueError):
    """There is no such code."""

    code = "PRG-X002"

    def __init__(self, asked: str) -> None:
        # A person may leave out the part that all codes share, and too little is alike then.
        whole = f"PRG-{asked.upper().removeprefix('PRG').removeprefix('-')}"
        near = get_close_matches(whole, error_codes(), n=3, cutoff=0.75)
        hint = f"; did you mean {', '.join(near)}" if near else ""
        super().__init__(f"there is no error code {asked}{hint}")


@cache
def error_codes() -> Mapping[str, ErrorCode]:
    """Every code with its row, family by family."""
    content = files("perago.domain").joinpath("error_codes.toml").read_text(encoding="utf-8")
    families = cast("dict[str, dict[str, dict[str, str]]]", tomllib.loads(content))
    return {
        code: _row(code, family, fields)
        for family, rows in families.items()
        for code, fields in rows.items()
    }


def find_code(code: str) -> ErrorCode | None:
    """Return the row of a code, or None."""
    return error_codes().get(code)


def filled(remedy: str, names: Mapping[str, str]) -> str:
    """A remedy with what is known for each word that a person replaces."""
    return _PLACEHOLDER.sub(lambda found: names.get(found[0], found[0]), remedy)


def commands_in(remedy: str) -> tuple[str, ...]:
    """What a person can type of a remedy."""
    return tuple(_IN_BACKTICKS.findall(remedy))


def _row(code: str, family: str, fields: Mapping[str, str]) -> ErrorCode:
    # A text may go over several lines of the file; it is one line wherever it is shown.
    lines = {name: " ".join(value.split()) for name, value in fields.items()}
    return ErrorCode(
        code=code,
        family=family,
        severity=Severity(lines.pop("severity")),
        retried=Retried(lines.pop("retried")),
        **lines,
    )
