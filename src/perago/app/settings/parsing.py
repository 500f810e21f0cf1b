"""Texts of settings as values and values as texts, with the error texts of the public 0.6.1.

Each `parse_*` gets a text that is not blank and the name to blame. `read_by` lets a field of the
settings be read by one of them. `value_text` shows a value, masked where it is secret.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from decimal import ROUND_CEILING, Decimal
from typing import Any, NoReturn, TypeVar

from pydantic import BeforeValidator, ByteSize, ValidationInfo

from perago.domain.errors import RuntimeConfigError

Parsed = TypeVar("Parsed")
Parse = Callable[[str, str], Parsed]

# How variables begin whose names other programs gave. All others begin with PERAGO_.
_OF_OTHERS = (
    "conductor_server_",
    "conductor_auth_",
    "lakectl_",
    "otel_",
    "http_proxy",
    "https_proxy",
    "no_proxy",
)
# What examples write for a key. Sent to a server it gives a puzzling 401; refused here it names
# itself.
PLACEHOLDER = "replace-me"
# Of 1024 although the names are those of 1000: 0.6.1 read them so.
SIZE_UNITS = {"KB": 1024, "MB": 1024**2, "GB": 1024**3}
# In seconds; the largest first, because a duration is shown in the first that it is a multiple of.
_DURATION_UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
# ASCII: `\d` would take digits of other scripts, which `int` reads and no operator means.
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(KB|MB|GB)", re.ASCII | re.IGNORECASE)
_DURATION = re.compile(r"(\d+)([smhd])", re.ASCII | re.IGNORECASE)
_DAYS = re.compile(r"([1-9]\d*)d", re.ASCII | re.IGNORECASE)
_INTEGER = re.compile(r"\d+", re.ASCII)
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,255}")
_INSTANCE = re.compile(r"[A-Za-z0-9._-]+")
# `host:port`; an address of IPv6 has colons of its own and stands in brackets.
_ADDRESS = re.compile(r"[^\s:]*:\d{1,5}|\[[0-9A-Fa-f:]+\]:\d{1,5}")
_BOOLEANS = {
    **dict.fromkeys(("true", "1", "yes", "on"), True),
    **dict.fromkeys(("false", "0", "no", "off"), False),
}
MASK = "**********"  # one length for all, so that it says nothing of the secret
# In a URL with user and password, such as a proxy's: shown with the user, without the password.
_PASSWORD = re.compile(r"(?<=://)([^/@\s:]*):[^/@\s]*@")


def variable_name(field: str) -> str:
    """The environment variable of a field of the settings."""
    name = field.upper()
    return name if field.startswith(_OF_OTHERS) else f"PERAGO_{name}"


def read_by(parse: Parse[Any]) -> BeforeValidator:
    """Let a field read its text by a parser, which blames the field's variable."""

    def read(value: object, info: ValidationInfo) -> object:
        # For a default pydantic 2.12 names no field. No default is refused, so none is blamed.
        name = variable_name(info.field_name or "default")
        return parse(value, name) if isinstance(value, str) else value

    return BeforeValidator(read)


def parse_text(value: str, name: str) -> str:
    """A text as it is, without the spaces around it; the placeholder of an example is refused."""
    stripped = value.strip()
    if stripped == PLACEHOLDER:
        _refuse(f"{name} must be replaced with a real value", "PRG-C003")
    return stripped


def parse_size(value: str, name: str) -> int:
    """A number of bytes; units are binary, fractions are rounded up."""
    found = _SIZE.fullmatch(value.strip())
    if found is None:
        _refuse(f"{name} must be a positive size such as '512KB', '100MB', or '1.5GB'")
    exact = Decimal(found[1]) * SIZE_UNITS[found[2].upper()]
    size = int(exact.to_integral_value(rounding=ROUND_CEILING))
    if size == 0:
        _refuse(f"{name} must be greater than zero")
    return size


def parse_days(value: str, name: str) -> timedelta:
    """A whole number of days."""
    days = _duration(value) if _DAYS.fullmatch(value.strip()) else None
    if days is None:
        _refuse(f"{name} must be a positive day count such as '7d' or '30d'")
    return days


def parse_duration(value: str, name: str) -> timedelta:
    """A positive duration."""
    duration = _duration(value)
    if not duration:
        _refuse(f"{name} must be a positive duration such as '30s', '5m', '1h', or '24h'")
    return duration


def parse_time_to_live(value: str, name: str) -> timedelta:
    """A duration that may be zero."""
    duration = _duration(value)
    if duration is None:
        _refuse(f"{name} must be a duration such as '0s', '5m', '24h', or '7d'")
    return duration


def parse_positive_integer(value: str, name: str) -> int:
    """A whole number above zero."""
    return _above_zero(_integer(value, f"{name} must be a positive integer"), name)


def parse_count(value: str, name: str) -> int:
    """A whole number from zero."""
    return _integer(value, f"{name} must be a whole number such as '0' or '16'")


def parse_milliseconds(value: str, name: str) -> int:
    """A whole number of milliseconds above zero."""
    refusal = f"{name} must be a positive integer number of milliseconds"
    return _above_zero(_integer(value, refusal), name)


def parse_boolean(value: str, name: str) -> bool:
    """A switch."""
    known = _BOOLEANS.get(value.strip().lower())
    if known is None:
        _refuse(f"{name} must be 'true' or 'false'")
    return known


def parse_worker_id_prefix(value: str, name: str) -> str:
    """The first part of worker ids: ASCII letters and digits only."""
    stripped = value.strip()
    if not stripped:
        _refuse(f"{name} must not be empty", "PRG-C007")
    if not (stripped.isascii() and stripped.isalnum()):
        _refuse(f"{name} must contain only ASCII letters and digits", "PRG-C007")
    return stripped


def parse_code_version(value: str, name: str) -> str:
    """The version of the task modules; commits keep it for ever, so it is one short word."""
    stripped = value.strip()
    if _VERSION.fullmatch(stripped) is None:
        _refuse(
            f"{name} must be a git commit, an image digest or a version: ASCII letters, digits and "
            "._:/@+- only, at most 256"
        )
    return stripped


def parse_instance_id(value: str, name: str) -> str:
    """The identity under which this worker exports metrics."""
    stripped = value.strip()
    if _INSTANCE.fullmatch(stripped) is None:
        _refuse(f"{name} must contain only ASCII letters, digits, dots, underscores, or hyphens")
    return stripped


def parse_compression(value: str, name: str) -> str | None:
    """The compression of exported metrics; OpenTelemetry's own word for none is accepted."""
    stripped = value.strip().lower()
    if stripped not in {"gzip", "none"}:
        _refuse(f"{name} must be 'gzip'")
    return None if stripped == "none" else stripped


def parse_execution_mode(value: str, name: str) -> str:
    """Where task bodies run."""
    mode = value.strip().lower()
    if mode not in {"process", "thread"}:
        _refuse(f"{name} must be either 'process' or 'thread'")
    return mode


def parse_address(value: str, name: str) -> str:
    """A host and a port to listen on; a port alone is one of the loopback address."""
    stripped = value.strip()
    if stripped.removeprefix(":").isdecimal():
        stripped = f"127.0.0.1:{stripped.removeprefix(':')}"
    if _ADDRESS.fullmatch(stripped) is None:
        _refuse(f"{name} must be a host and a port such as '127.0.0.1:9102'")
    return stripped


def one_of(*choices: str) -> Parse[str]:
    """Return a parser that accepts these words only."""
    # Not repr of a choice: of a member of an enum it shows the class too.
    listed = ", ".join(f"'{each}'" for each in choices)

    def parse(value: str, name: str) -> str:
        word = value.strip().lower()
        if word not in choices:
            _refuse(f"{name} must be one of {listed}")
        return word

    return parse


def value_text(value: object, *, is_secret: bool) -> str:
    """Return the text of a value; secrets are masked, what is not set is empty."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case timedelta():
            return _duration_text(value)
        case ByteSize():
            return _size_text(value)
        case _:
            return _PASSWORD.sub(rf"\1:{MASK}@", MASK if is_secret else str(value))


def _duration(value: str) -> timedelta | None:
    found = _DURATION.fullmatch(value.strip())
    if found is not None:
        with suppress(OverflowError):  # the clock has no number for so long a time
            return timedelta(seconds=int(found[1]) * _DURATION_UNITS[found[2].lower()])
    return None


def _integer(value: str, refusal: str) -> int:
    if _INTEGER.fullmatch(value.strip()) is None:
        _refuse(refusal)
    return int(value)


def _above_zero(number: int, name: str) -> int:
    if number == 0:
        _refuse(f"{name} must be greater than zero")
    return number


def _refuse(text: str, code: str = "PRG-C002") -> NoReturn:
    raise RuntimeConfigError(text, code=code)


def _duration_text(value: timedelta) -> str:
    seconds = int(value.total_seconds())
    fitting = (unit for unit, length in _DURATION_UNITS.items() if seconds % length == 0)
    unit = next(fitting) if seconds else "s"  # 0 is a multiple of all
    return f"{seconds // _DURATION_UNITS[unit]}{unit}"


def _size_text(value: int) -> str:
    for unit, length in reversed(SIZE_UNITS.items()):
        if value % length == 0:
            return f"{value // length}{unit}"
    return f"{value / SIZE_UNITS['KB']}KB"
