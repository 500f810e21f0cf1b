"""The publication fence: the hook file that lakeFS runs before a merge, and what is known of it."""

from dataclasses import dataclass
from enum import StrEnum
from textwrap import indent


class FenceState(StrEnum):
    """What is known of the fence in the input commit and in the server."""

    ABSENT = "absent"
    TRUSTED = "trusted"
    ALTERED = "altered"
    DEAD = "dead"
    DISTRUSTED = "distrusted"


# The hook's own words in a 412. Without the first another rule refused, and sending again cannot
# help. The second is for people: no worker sends a merge that it would refuse.
HEAD_MOVED_TEXT = "perago.head_moved"
PRIVATE_BRANCH_TEXT = "perago.private_branch"

# A commit without the expected head is not ours (or of 0.6.1), and passes: the fence must not stop
# the work of others.
FENCE_SCRIPT_1 = """\
local expected = action.commit.metadata["perago.expected_head"]
if expected ~= nil then
  local found = tostring(action.commit.parents[1])
  if expected ~= found then
    error("perago.head_moved " .. expected .. " " .. found)
  end
end
"""

# Such a merge would publish half a run, or a commit that no attempt has decided. A decision's tag
# names a staged commit too. The hook judges by what the caller wrote, because lakeFS tells it no
# branch and no metadata of a source that is given as a commit id.
FENCE_SCRIPT = """\
local expected = action.commit.metadata["perago.expected_head"]
if expected ~= nil then
  local found = tostring(action.commit.parents[1])
  if expected ~= found then
    error("perago.head_moved " .. expected .. " " .. found)
  end
else
  local source = tostring(action.merge_source)
  local private = {"perago-staging-", "perago-run-", "perago-scratch-", "perago-settled-"}
  for _, prefix in ipairs(private) do
    if string.sub(source, 1, #prefix) == prefix then
      local remedy = ": publish through Perago, see perago explain PRG-F027"
      error("perago.private_branch " .. source .. remedy)
    end
  end
end
"""


# `pre-merge` runs inside the update that moves the branch, on every try of the server, with the
# parents that the commit will have: 20 rounds of 8 publishers had one winner each, without it 2 to
# 8 (lakeFS 1.86). No branch filter: scratch branches of the canary must be covered as well.
def _file(description: str, script: str) -> bytes:
    return f"""\
name: perago publication fence
description: {description}
on:
  pre-merge:
hooks:
  - id: perago_expected_head
    type: lua
    properties:
      script: |
{indent(script, " " * 8)}""".encode()


FENCE_FILE_1 = _file(
    "Refuses a Perago publication whose expected head is not the target's head. Version 1.",
    FENCE_SCRIPT_1,
)
FENCE_FILE = _file(
    "Refuses a Perago publication whose expected head is not the target's head, "
    "and merges of Perago's private branches by others. Version 2.",
    FENCE_SCRIPT,
)
# Every text that was ever shipped, newest first; an older one is trusted and replaced on install.
SHIPPED_FENCE_FILES: tuple[bytes, ...] = (FENCE_FILE, FENCE_FILE_1)
FENCE_VERSION = len(SHIPPED_FENCE_FILES)


@dataclass(frozen=True, slots=True)
class SeenFence:
    """What the fence file of one commit is; version 0 is none of ours."""

    state: FenceState
    version: int = 0


def recognise_fence(content: bytes | None) -> SeenFence:
    """Tell what the fence file of a commit is; a live canary has to confirm TRUSTED."""
    if content is None:
        return SeenFence(FenceState.ABSENT)
    if content not in SHIPPED_FENCE_FILES:
        return SeenFence(FenceState.ALTERED)
    version = FENCE_VERSION - SHIPPED_FENCE_FILES.index(content)
    return SeenFence(FenceState.TRUSTED, version)
