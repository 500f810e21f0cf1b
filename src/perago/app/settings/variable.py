"""One setting: its name in the environment, how its text is read, what it is for.

Stands in the annotation of a field of `Settings`. Holds no value.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from perago.domain.authoring_errors import RuntimeConfigError


@dataclass(frozen=True)
class Variable:
    """What is known of a setting besides its type and default."""

    name: str
    parse: Callable[[str, str], Any]
    about: str
    secret: bool = False
    blank_is_unset: bool = True

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self._read, handler(source))

    def _read(self, value: object) -> object:
        if not isinstance(value, str):
            return value
        try:
            return self.parse(value, self.name)
        except RuntimeConfigError:
            raise
        except ValueError as error:
            raise RuntimeConfigError(f"{self.name}: {error}", code="PRG-C002") from error
