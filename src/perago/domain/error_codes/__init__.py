"""Every stable error code of Perago, in one table: cause, remedy, long form.

Rows stand in files by family; a new code is one row there. Raises nothing itself.
"""

from difflib import get_close_matches

from perago.domain.error_codes.attempts import ATTEMPT_CODES
from perago.domain.error_codes.configuration import CONFIGURATION_CODES
from perago.domain.error_codes.fences import FENCE_CODES
from perago.domain.error_codes.row import ErrorCode
from perago.domain.error_codes.services import SERVICE_CODES
from perago.domain.error_codes.spark import SPARK_CODES
from perago.domain.error_codes.tasks import TASK_CODES
from perago.domain.errors import PeragoError

__all__ = ["ERROR_CODES", "ErrorCode", "UnknownCodeError", "find_code"]

ERROR_CODES: dict[str, ErrorCode] = {
    row.code: row
    for family in (
        TASK_CODES,
        CONFIGURATION_CODES,
        ATTEMPT_CODES,
        FENCE_CODES,
        SERVICE_CODES,
        SPARK_CODES,
    )
    for row in family
}


class UnknownCodeError(PeragoError, ValueError):
    """There is no such code."""

    code = "PRG-X002"

    def __init__(self, asked: str) -> None:
        near = get_close_matches(asked.upper(), ERROR_CODES, n=3, cutoff=0.75)
        hint = f"; did you mean {', '.join(near)}" if near else ""
        super().__init__(f"there is no error code {asked}{hint}")
        self.asked = asked


def find_code(code: str) -> ErrorCode | None:
    """Return the row of a code, or None."""
    return ERROR_CODES.get(code)
