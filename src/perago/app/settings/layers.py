"""Where settings come from: flags, environment, `.env`, `[tool.perago]`, lakectl's own file.

A layer is names with texts. What a text means is decided by the setting it is for.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from perago.domain.authoring_errors import RuntimeConfigError

FLAGS, ENVIRONMENT, DOTENV = "flag", "environment", ".env"
PYPROJECT, LAKECTL = "[tool.perago]", "~/.lakectl.yaml"
FILE_SUFFIX = "_FILE"

_LAKECTL_PLACES = {
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
        if name in layer.values:
            return Found(layer.origin, layer.values[name])
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
    asked = {each for name in _LAKECTL_PLACES for each in (name, name + FILE_SUFFIX)}
    # All or nothing: a key from here must never meet an address from there.
    if home and not asked & given:
        layers.append(Layer(LAKECTL, _read_lakectl(Path(home) / ".lakectl.yaml")))
    return layers


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
    for key, value in document.get("tool", {}).get("perago", {}).items():
        if key.replace("-", "_") == "spark_conf":
            values |= {f"PERAGO_SPARK_CONF_{name}": each for name, each in value.items()}
            continue
        name = _variable_of(key, variables)
        if variables[name]:
            raise RuntimeConfigError(
                f"{name} is a secret and must not be in [tool.perago]; use the environment,"
                f" .env or {name}{FILE_SUFFIX}",
                code="PRG-C006",
            )
        values[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return values


def _variable_of(key: str, variables: Mapping[str, bool]) -> str:
    upper = key.replace("-", "_").upper()
    for name in (f"PERAGO_{upper}", upper):
        if name in variables:
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
    for name, (section, key) in _LAKECTL_PLACES.items():
        value = _mapping(_mapping(document).get(section)).get(key)
        if isinstance(value, str) and value.strip():
            values[name] = value
    return values


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _secret(path: str, name: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise RuntimeConfigError(
            f"{name}{FILE_SUFFIX} cannot be read: {error}", code="PRG-C006"
        ) from error
