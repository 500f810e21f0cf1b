"""Where settings come from: flags, environment, `.env`, `[tool.perago]`, lakectl's own file.

A layer maps names to texts; the first layer that has a name wins. What a text means is decided by
the setting it is for (`parsing`). Without any layer files are below `default_root`.
"""

import os
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from perago.domain.attempt import as_mapping
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
    """A value and where it was found; with `is_file` it is the path of the file that holds it."""

    origin: str
    value: object
    is_file: bool = False


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
            return Found(f"{layer.origin}: {name}{FILE_SUFFIX}", path, is_file=True)
    return None


def read_secret(path: str, name: str) -> str:
    """Return what the file of a secret has, which must be something."""
    try:
        secret = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        text = f"{name}{FILE_SUFFIX} cannot be read: {error}"
        raise RuntimeConfigError(text, code="PRG-C006") from error
    if not secret:
        raise RuntimeConfigError(f"{name}{FILE_SUFFIX} is empty: {path}", code="PRG-C006")
    return secret


def standard_layers(
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
        value = as_mapping(as_mapping(document).get(section)).get(key)
        if isinstance(value, str) and value.strip():
            values[name] = value
    return values


def default_root(environment: Mapping[str, str] = os.environ, temporary: str | None = None) -> Path:
    """Where Perago keeps its files unless settings say otherwise.

    The state directory, because attempts and logs have to outlive a log-out and need a real disk:
    `XDG_RUNTIME_DIR` is a small file system in memory that goes with the session. A user without a
    home, as in many containers, gets a directory in the temporary one that names his number.
    """
    state = environment.get("XDG_STATE_HOME", "")
    home = environment.get("HOME", "")
    folders = [Path(state)] if Path(state).is_absolute() else []
    if Path(home).is_absolute():
        folders.append(Path(home) / ".local" / "state")
    for folder in folders:
        nearest = next(each for each in (folder, *folder.parents) if each.exists())
        # Only the root directory is there of a home like `/nonexistent`: it is none, though root
        # could make it.
        if os.access(nearest, os.W_OK | os.X_OK) and nearest != Path("/"):
            return folder / "perago"
    return Path(temporary or tempfile.gettempdir()) / f"perago-{os.geteuid()}"
