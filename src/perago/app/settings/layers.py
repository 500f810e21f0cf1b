"""Where settings come from: flags, environment, `.env`, `[tool.perago]`, lakectl's own file.

A layer maps names to texts; the first layer that has a name wins. What a text means is decided by
the setting it is for (`parsing`). `LayeredSettings` builds frozen settings from layers and
remembers where each value came from, for `perago config`.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, cast

from pydantic import PrivateAttr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from perago.app.settings.parsing import Variable, value_text
from perago.domain.errors import RuntimeConfigError

FLAGS, ENVIRONMENT, DOTENV = "flag", "environment", ".env"
PYPROJECT, LAKECTL = "[tool.perago]", "~/.lakectl.yaml"
FILE_SUFFIX = "_FILE"  # as in images of databases: secrets of Docker and Kubernetes are files
# As every HTTP client reads them: lower case first, one name for both schemes last.
_SPELLINGS = {
    "HTTP_PROXY": ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"),
    "HTTPS_PROXY": ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"),
    "NO_PROXY": ("no_proxy", "NO_PROXY"),
}
LAKEFS = "PERAGO_LAKEFS"

_LAKECTL_KEYS = {
    "LAKECTL_SERVER_ENDPOINT_URL": ("server", "endpoint_url"),
    "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": ("credentials", "access_key_id"),
    "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": ("credentials", "secret_access_key"),
}


@dataclass(frozen=True)
class Layer:
    """One source of settings, by the names of environment variables."""

    origin: str
    values: Mapping[str, object]


@dataclass(frozen=True)
class Found:
    """A value and where it was found."""

    origin: str
    value: object


def find(layers: Sequence[Layer], name: str, *, secret: bool) -> Found | None:
    """Return the value of the first layer that has the name, even when it is blank there.

    A secret may be named by the file that holds it; its own name wins within one layer.
    """
    for layer in layers:
        for spelling in _SPELLINGS.get(name, (name,)):
            if spelling in layer.values:
                origin = layer.origin if spelling == name else f"{layer.origin}: {spelling}"
                return Found(origin, layer.values[spelling])
        path = layer.values.get(name + FILE_SUFFIX) if secret else None
        if path:
            return Found(f"{layer.origin}: {name}{FILE_SUFFIX}", _secret(str(path), name))
    return None


def standard_layers(
    *,
    flags: Mapping[str, object],
    process_env: Mapping[str, str],
    cwd: Path,
    variables: Mapping[str, bool],
) -> list[Layer]:
    """Return all layers, the strongest first; `variables` says of each name if it is secret."""
    layers = [
        Layer(FLAGS, flags),
        Layer(ENVIRONMENT, process_env),
        Layer(DOTENV, read_dotenv(cwd / ".env")),
        Layer(PYPROJECT, _read_pyproject(cwd / "pyproject.toml", variables)),
    ]
    home = process_env.get("HOME")
    given = {name for layer in layers for name in layer.values}
    asked = {each for name in _LAKECTL_KEYS for each in (name, name + FILE_SUFFIX)}
    # All or nothing: a key from here must never meet an address from there.
    if home and not asked & given:
        own = _read_lakectl(Path(home) / ".lakectl.yaml")
        chosen = find(layers, LAKEFS, secret=False)
        if chosen is None or _is_same_server(str(chosen.value), own):
            layers.append(Layer(LAKECTL, own))
    return layers


def _is_same_server(chosen: str, own: Mapping[str, object]) -> bool:
    """Whether lakectl's keys are for the address that was chosen; no address is no choice."""
    host = _host(chosen)
    return not host or host == _host(str(own.get("LAKECTL_SERVER_ENDPOINT_URL", "")))


def _host(address: str) -> str:
    return address.strip().rstrip("/").removesuffix("/api/v1").rstrip("/").lower()


def read_dotenv(path: Path) -> dict[str, str]:
    """Read `KEY=value` lines; `export` and one pair of quotes go, nothing is expanded."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise RuntimeConfigError(f"{path} cannot be read: {error}", code="PRG-C006") from error
    values: dict[str, str] = {}
    for line in text.splitlines():
        stripped = line.strip()
        name, separator, value = stripped.partition("=")
        if separator and not stripped.startswith("#"):
            values[name.removeprefix("export ").strip()] = _unquoted(value.strip())
    return values


def _unquoted(value: str) -> str:
    for quote in "\"'":
        if len(value) > 1 and value[0] == value[-1] == quote:
            return value[1:-1]
    return value


def _read_pyproject(path: Path, variables: Mapping[str, bool]) -> dict[str, object]:
    if not path.is_file():
        return {}
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise RuntimeConfigError(f"{path} cannot be read: {error}", code="PRG-C006") from error
    values: dict[str, object] = {}
    for key, value in _table(_table(document, "tool"), "perago").items():
        if key.replace("-", "_") == "spark_conf":
            options = _table({key: value}, key)
            values |= {f"PERAGO_SPARK_CONF_{name}": _text(each) for name, each in options.items()}
            continue
        name = _variable_of(key, variables)
        if variables.get(name):
            raise RuntimeConfigError(
                f"{name} is a secret and must not be in [tool.perago]; use the environment,"
                f" .env or {name}{FILE_SUFFIX}",
                code="PRG-C006",
            )
        if isinstance(value, dict | list):
            raise RuntimeConfigError(
                f"[tool.perago] {key} must be one value, not a table or a list", code="PRG-C006"
            )
        values[name] = _text(value)
    return values


def _table(document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = document.get(key, {})
    if not isinstance(found, dict):
        raise RuntimeConfigError(f"{key} in pyproject.toml must be a table", code="PRG-C006")
    return cast("dict[str, Any]", found)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _variable_of(key: str, variables: Mapping[str, bool]) -> str:
    upper = key.replace("-", "_").upper()
    for name in (f"PERAGO_{upper}", upper):
        # NAME_FILE names a file that holds NAME, and only a secret may be given so.
        if name in variables or variables.get(name.removesuffix(FILE_SUFFIX)):
            return name
    raise RuntimeConfigError(
        f"[tool.perago] has an unknown key: {key}; `perago config show` lists the known ones",
        code="PRG-C006",
    )


def _read_lakectl(path: Path) -> dict[str, object]:
    if not path.is_file():
        return {}
    import yaml  # noqa: PLC0415  # needed only by those who have the file

    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise RuntimeConfigError(f"{path} cannot be read", code="PRG-C006") from error
    values: dict[str, object] = {}
    for name, (section, key) in _LAKECTL_KEYS.items():
        value = _mapping(_mapping(document).get(section)).get(key)
        if isinstance(value, str) and value.strip():
            values[name] = value
    return values


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _secret(path: str, name: str) -> str:
    try:
        secret = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise RuntimeConfigError(
            f"{name}{FILE_SUFFIX} cannot be read: {error}", code="PRG-C006"
        ) from error
    if not secret:
        raise RuntimeConfigError(f"{name}{FILE_SUFFIX} is empty: {path}", code="PRG-C006")
    return secret


DEFAULT = "default"
_LAYERS = "layers"  # no setting: how `of` hands the layers to pydantic-settings


@dataclass(frozen=True)
class ShownSetting:
    """One setting as it may be shown: a text, masked where it is secret, and its origin."""

    variable: Variable
    text: str
    origin: str


class LayeredSettings(BaseSettings):
    """Frozen values with origins; an invalid text is refused by its own error."""

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
