"""The fence: one pre-merge Lua hook that compares a merge's first parent with the expected head.

Holds the shipped texts and recognises them by their bytes; installing is the application's.
"""

from perago.domain.publication_policy import FenceState

HEAD_MOVED_TEXT = "perago.head_moved"

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


# No branch filter: scratch branches of the canary must be covered as well.
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
