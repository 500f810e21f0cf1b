"""What a fetched Java trusts: what this machine trusts, private certificate authorities included.

Decides by what is there: a bundle of certificates that the environment names, the keystore that
the machine keeps for Java, its bundle for all other programs. A Java that is installed is used as
it is.
"""

import hashlib
import re
import ssl
import struct
from collections.abc import Mapping
from pathlib import Path

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
