"""Everything that a plain `pip install perago` brings is under a permissive licence.

The licence is read from the metadata of what the gate has installed. So a pin that moves to a
release under another licence fails here, as lakefs-sdk would have: from 1.87 on it is BUSL-1.1,
which restricts what a team may do with the product it is part of.
"""

import re
from importlib.metadata import distribution, metadata

from packaging.requirements import Requirement

# A licence that starts with one of these may be part of any product. MPL-2.0 is among them
# because it asks something only of those who change the file under it (certifi, a list of CAs).
# aiohappyeyeballs, which aiohttp needs, names PSF-2.0 by its classifier and not as an expression.
PERMISSIVE = re.compile(
    r"(the )?(apache|mit|bsd|0bsd|isc|psf-2|python software foundation|mpl-2\.0|mozilla)\b",
    re.IGNORECASE,
)


def declared_licences(package: str) -> list[str]:
    """Return what the package says of its licence: its expression, else classifiers, else text."""
    fields = metadata(package)
    if "License-Expression" in fields:
        return re.split(r" AND | OR ", fields["License-Expression"])
    classifiers = fields.get_all("Classifier") or []
    names = [line.rpartition(" :: ")[2] for line in classifiers if line.startswith("License ::")]
    return names or [fields["License"].partition("\n")[0] if "License" in fields else "none"]


def is_permissive(licence: str) -> bool:
    """Tell whether a declared licence is one of those that any product may be built on."""
    return PERMISSIVE.match(licence.strip()) is not None


def default_requirements() -> set[str]:
    """Return every package that Perago without extras needs, through all levels."""
    found: set[str] = set()
    waiting = ["perago"]
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in found:
            continue
        found.add(name)
        for line in distribution(name).requires or []:
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                waiting.append(requirement.name)
    return found


def test_every_default_dependency_is_under_a_permissive_licence() -> None:
    declared = {name: declared_licences(name) for name in default_requirements()}
    assert {"aiohttp", "multidict"} <= declared.keys()
    restrictive = {
        name: licences
        for name, licences in declared.items()
        if not all(is_permissive(licence) for licence in licences)
    }
    assert restrictive == {}


def test_a_licence_that_restricts_would_be_refused() -> None:
    refused = ("BUSL-1.1", "Business Source License 1.1", "none", "GPL-3.0-only", "AGPL")
    assert [licence for licence in refused if is_permissive(licence)] == []
