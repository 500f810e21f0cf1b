"""`REPO@REF` on the command line, and where reports go. Asks nobody."""

from dataclasses import dataclass

from perago.domain.authoring_errors import TaskInputError
from perago.domain.references import RepositoryId


@dataclass(frozen=True, slots=True)
class CommitAddress:
    """A repository and a commit, branch or tag in it."""

    repository: RepositoryId
    ref: str


def parse_address(text: str) -> CommitAddress:
    """Split at the one `@`."""
    repository, _, ref = text.partition("@")
    if not repository or not ref or "@" in ref:
        raise TaskInputError(f"expected REPO@REF, found {text!r}", code="PRG-I008")
    return CommitAddress(RepositoryId(repository), ref)
