"""The publication fence: the hook file that lakeFS runs before a merge, and what is known of it."""

from enum import StrEnum


class FenceState(StrEnum):
    """What is known of the fence in the input commit and in the server."""

    ABSENT = "absent"
    TRUSTED = "trusted"
    ALTERED = "altered"
    DEAD = "dead"
    DISTRUSTED = "distrusted"


# The hook's own word in a 412. Without it another hook refused, and sending again cannot help.
HEAD_MOVED_TEXT = "perago.head_moved"

# A commit without the expected head is not ours (or of 0.6.1), and passes: the fence must not stop
# the work of others.
FENCE_SCRIPT = """\
local expected = action.commit.metadata["perago.expected_head"]
if expected ~= nil then
  local found = tostring(action.commit.parents[1])
  if expected ~= found then
    error("perago.head_moved " .. expected .. " " .. found)
  end
end
"""


def _indent(text: str, spaces: int) -> str:
    return "".join(f"{' ' * spaces}{line}\n" for line in text.splitlines())


# `pre-merge` runs inside the update that moves the branch, on every try of the server, with the
# parents that the commit will have: 20 rounds of 8 publishers had one winner each, without it 2 to
# 8 (lakeFS 1.86). No branch filter: scratch branches of the canary must be covered as well.
FENCE_FILE = f"""\
name: perago publication fence
description: Refuses a Perago publication whose expected head is not the target's head. Version 1.
on:
  pre-merge:
hooks:
  - id: perago_expected_head
    type: lua
    properties:
      script: |
{_indent(FENCE_SCRIPT, 8)}""".encode()

# Every text that was ever shipped, newest first; an older one is trusted and replaced on install.
SHIPPED_FENCE_FILES: tuple[bytes, ...] = (FENCE_FILE,)


def recognise_fence(content: bytes | None) -> FenceState:
    """Tell what the fence file of a commit is; a live canary has to confirm TRUSTED."""
    if content is None:
        return FenceState.ABSENT
    return FenceState.TRUSTED if content in SHIPPED_FENCE_FILES else FenceState.ALTERED
