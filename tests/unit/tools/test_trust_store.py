"""What a fetched Java is told to trust."""

import hashlib
import ssl
from pathlib import Path

import pytest

from perago_servers.java import (
    BUNDLES,
    KEYSTORES,
    NAMED_BY,
    as_keystore,
    source_of_trust,
    trust_options,
)

PEM = ssl.DER_cert_to_PEM_cert(b"one") + "# a comment\n" + ssl.DER_cert_to_PEM_cert(b"another")


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        ((), None),
        ((BUNDLES[1],), BUNDLES[1]),
        ((BUNDLES[0], BUNDLES[1]), BUNDLES[0]),
        ((BUNDLES[0], KEYSTORES[0]), KEYSTORES[0]),
        ((BUNDLES[0], KEYSTORES[1]), KEYSTORES[1]),
    ],
    ids=["nothing", "a bundle", "the usual bundle first", "a keystore before a bundle", "Fedora's"],
)
def test_the_machine_is_gone_by(
    tmp_path: Path, there: tuple[str, ...], expected: str | None
) -> None:
    for name in there:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert source_of_trust({}, tmp_path) == (expected and tmp_path / expected)


@pytest.mark.parametrize("name", NAMED_BY)
def test_a_bundle_that_the_environment_names_comes_first(tmp_path: Path, name: str) -> None:
    (tmp_path / KEYSTORES[0]).parent.mkdir(parents=True)
    (tmp_path / KEYSTORES[0]).touch()
    named = tmp_path / "corporate.pem"
    named.touch()
    assert source_of_trust({name: str(named)}, tmp_path) == named
    assert source_of_trust({name: "absent"}, tmp_path) == tmp_path / KEYSTORES[0]


def test_a_keystore_is_used_as_it_is(tmp_path: Path) -> None:
    store = tmp_path / "cacerts"
    store.write_bytes(as_keystore([b"one"]))
    assert trust_options(store, tmp_path)[0] == f"-Djavax.net.ssl.trustStore={store}"
    assert trust_options(None, tmp_path) == []


def test_every_certificate_of_a_bundle_is_in_the_keystore(tmp_path: Path) -> None:
    bundle = tmp_path / "bundle.pem"
    bundle.write_text(PEM)
    assert trust_options(bundle, tmp_path)[0].endswith("/trusted.jks")
    content, digest = (tmp_path / "trusted.jks").read_bytes()[:-20], as_keystore([])[-20:]
    assert content[:12] == bytes.fromhex("feedfeed 00000002 00000002")
    assert b"X.509\x00\x00\x00\x03one" in content
    assert content.endswith(b"X.509\x00\x00\x00\x07another")
    empty = bytes.fromhex("feedfeed 00000002 00000000")
    salted = "changeit".encode("utf-16-be") + b"Mighty Aphrodite" + empty
    assert digest == hashlib.sha1(salted).digest()  # noqa: S324 - the format's
