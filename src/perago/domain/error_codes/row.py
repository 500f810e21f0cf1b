"""One error code as a value: what happened, what to do, and the long form.

Text only; the errors that carry a code are elsewhere.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """A row of the table that `perago explain` prints."""

    code: str
    cause: str
    remedy: str
    text: str
