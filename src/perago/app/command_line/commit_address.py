"""`REPO@REF` on the command line, and where reports go. Asks nobody."""

from dataclasses import dataclass

from perago.app.command_line.reporting import CommandUsageError
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
        raise CommandUsageError(f"expected REPO@REF, found {text!r}")
    return CommitAddress(RepositoryId(repository), ref)
