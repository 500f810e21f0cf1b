"""Settings whose values come from our layers, each with the layer it was found in.

The mechanism only; which settings there are is said by the classes that inherit from this one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

from pydantic import PrivateAttr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from perago.app.settings.layers import Found, Layer, find
from perago.app.settings.value_text import value_text
from perago.app.settings.variable import Variable
from perago.domain.authoring_errors import RuntimeConfigError

DEFAULT = "default"
_LAYERS = "layers"


@dataclass(frozen=True)
class ShownSetting:
    """One setting as it may be shown: a text, masked where it is secret, and its origin."""

    variable: Variable
    text: str
    origin: str


class LayeredSettings(BaseSettings):
    """Frozen values with origins; a text that cannot be meant is refused by its own error."""

    model_config = SettingsConfigDict(
        frozen=True, extra="forbid", validate_default=True, hide_input_in_errors=True
    )

    _layers: Sequence[Layer] = PrivateAttr(default=())

    @classmethod
    def of(cls, layers: Sequence[Layer]) -> Self:
        """Return the settings that these layers make, the strongest first."""
        values: dict[str, Any] = {_LAYERS: layers}
        try:
            settings = cls(**values)
        except ValidationError as error:
            raise _first_refusal(error) from None  # the original carries the values
        settings._layers = layers  # its own
        return settings

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take values from our layers only, so that each has an origin."""
        del env_settings, dotenv_settings, file_secret_settings
        return (_LayeredSource(settings_cls, init_settings().get(_LAYERS, ())),)

    def shown(self) -> Iterator[ShownSetting]:
        """Every setting, in order."""
        for field, variable in variables(type(self)):
            value = getattr(self, field)
            found = _value(self._layers, variable)
            origin = found.origin if found else DEFAULT
            yield ShownSetting(variable, value_text(variable, value), origin)


def variables(settings: type[BaseSettings]) -> Iterator[tuple[str, Variable]]:
    """Each field of the settings with its variable, in order."""
    for field, info in settings.model_fields.items():
        for each in info.metadata:
            if isinstance(each, Variable):
                yield field, each


def as_found(settings: type[BaseSettings], layers: Sequence[Layer]) -> Iterator[ShownSetting]:
    """Each setting as its layer has it; nothing is read, so that nothing can be refused."""
    for field, variable in variables(settings):
        found = _value(layers, variable)
        if found is None:
            default = value_text(variable, settings.model_fields[field].default)
            yield ShownSetting(variable, default, DEFAULT)
        else:
            yield ShownSetting(variable, value_text(variable, found.value), found.origin)


class _LayeredSource(PydanticBaseSettingsSource):
    """Hands pydantic the strongest value of each setting."""

    def __init__(self, settings_cls: type[BaseSettings], layers: Sequence[Layer]) -> None:
        super().__init__(settings_cls)
        self._layers = layers

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """Look one field up."""
        variable = next(each for each in field.metadata if isinstance(each, Variable))
        found = _value(self._layers, variable)
        return (found.value if found else None), field_name, False

    def __call__(self) -> dict[str, Any]:
        """Return the values that are set, by field."""
        return {
            field: self.get_field_value(info, field)[0]
            for field, info in self.settings_cls.model_fields.items()
            if self.get_field_value(info, field)[0] is not None
        }


def _value(layers: Sequence[Layer], variable: Variable) -> Found | None:
    found = find(layers, variable.name, secret=variable.secret)
    if found is None:
        return None
    is_blank = isinstance(found.value, str) and not found.value.strip()
    return None if is_blank and variable.blank_is_unset else found


def _first_refusal(error: ValidationError) -> RuntimeConfigError:
    first = error.errors(include_url=False, include_input=False)[0]
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, RuntimeConfigError):
        return cause
    return RuntimeConfigError(f"{first['loc'][0]}: {first['msg']}", code="PRG-C002")
