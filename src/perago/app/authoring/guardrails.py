"""Judges a workspace by its guardrails; the first one that fails ends the attempt.

Knows no phase but its name: what a violation means for Conductor is `failure`.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from perago.app.authoring.glob_matching import matching_paths
from perago.app.authoring.guardrail_declaration import WorkspaceGuardrail
from perago.app.authoring.workspace_tree import (
    DirectoryTree,
    EntryKind,
    ListingTree,
    WorkspaceTree,
)
from perago.domain.authoring_errors import (
    GuardrailViolation,
    PostGuardrailViolation,
    PreGuardrailViolation,
)

_VIOLATION = {"pre": PreGuardrailViolation, "post": PostGuardrailViolation}


def check_guardrails(root: Path, guardrails: Sequence[WorkspaceGuardrail], phase: str) -> None:
    """Check a workspace on disk; each directory is read at most once for all guardrails."""
    check_guardrails_on_tree(DirectoryTree(root), guardrails, phase)


def check_guardrails_on_listing(
    paths: Iterable[str], guardrails: Sequence[WorkspaceGuardrail], phase: str
) -> None:
    """Check a workspace that is known by the relative paths of its files."""
    check_guardrails_on_tree(ListingTree(paths), guardrails, phase)


def check_guardrails_on_tree(
    tree: WorkspaceTree, guardrails: Sequence[WorkspaceGuardrail], phase: str
) -> None:
    """Raise the violation of `phase` for the first guardrail that does not hold."""
    for guardrail in guardrails:
        finding = _finding(tree, guardrail)
        if finding is not None:
            violation = _VIOLATION.get(phase, GuardrailViolation)
            raise violation(f"{phase} guardrail {guardrail.kind}({guardrail.path!r}) {finding}")


def _finding(tree: WorkspaceTree, guardrail: WorkspaceGuardrail) -> str | None:
    match guardrail.kind:
        case "require_file":
            found = tree.kind(guardrail.path) is EntryKind.FILE
            return None if found else "did not find a file"
        case "require_dir":
            kind = tree.kind(guardrail.path)
            found = kind is not None and kind.is_directory
            return None if found else "did not find a directory"
        case "require_glob":
            return _out_of_bounds(tree, guardrail)
        case "forbid_glob":
            count = sum(1 for _ in matching_paths(tree, guardrail.path))
            return f"matched {count} files" if count else None


def _out_of_bounds(tree: WorkspaceTree, guardrail: WorkspaceGuardrail) -> str | None:
    count = sum(1 for _ in matching_paths(tree, guardrail.path))
    if guardrail.min_count is not None and count < guardrail.min_count:
        return f"matched {count} files; min_count={guardrail.min_count}"
    if guardrail.max_count is not None and count > guardrail.max_count:
        return f"matched {count} files; max_count={guardrail.max_count}"
    return None
