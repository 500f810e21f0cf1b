"""Paths that belong to lakeFS and Perago: never materialised, staged, deleted or matched.

Knows names only; who wrote one is found out by the diff that is asked with these prefixes.
"""

ACTIONS_PREFIX = "_lakefs_actions/"
ATTEMPT_MARKER = ".perago-attempt.json"
FENCE_PATH = "_lakefs_actions/perago_publication_fence.yaml"


def is_reserved_object(path: str) -> bool:
    """Whether an object path of a repository is nobody's business but lakeFS's or ours."""
    return path.startswith(ACTIONS_PREFIX) or path.rpartition("/")[2] == ATTEMPT_MARKER


def is_refused_object(path: str) -> bool:
    """Whether a body that wrote this object must fail; our own marker is merely invisible."""
    return path.startswith(ACTIONS_PREFIX)
