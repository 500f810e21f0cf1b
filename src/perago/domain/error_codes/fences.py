"""Codes of publication: fences, policies, unknown outcomes."""

from perago.domain.error_codes.row import ErrorCode

_RESTART = (
    "Start a new workflow from the current head of the branch; lakectl branch show"
    " lakefs://REPO/BRANCH prints it."
)
_INSTALL = "Run perago fence install REPO BRANCH, then perago fence verify REPO BRANCH."

FENCE_CODES = (
    ErrorCode(
        "PRG-U001",
        "Nobody knows whether the publication happened.",
        "Look at the branch and the logged evidence before anything is repeated by hand.",
        "The request left and no answer came until the deadline. Expected head, seen head and"
        " staged reference are in the log; the staging branch and tags are kept. A later"
        " attempt meets whatever happened as its policy says.",
    ),
    ErrorCode(
        "PRG-F001",
        "Conductor no longer counts this attempt.",
        "Nothing: another attempt has taken over, or the workflow has ended.",
        "A fresh read before staging, and again before publishing, must show this very attempt"
        " in progress. The reason names the fact that differs.",
    ),
    ErrorCode(
        "PRG-F002",
        "The target branch is not where this publication may land.",
        _RESTART,
        "The head is neither the input commit nor something the policy can explain. Nothing"
        " was changed. Under settled no retry can help, so the attempt ends for good.",
    ),
    ErrorCode(
        "PRG-F003",
        "The commit to be replaced belongs to somebody else, or names no owner.",
        _RESTART,
        "head-parent replaces abandoned publications of the same task only. With"
        " PERAGO_REQUIRE_OWNERSHIP=true a commit without an owner is not replaced either.",
    ),
    ErrorCode(
        "PRG-F004",
        "The branch moved too far from the input commit.",
        _RESTART,
        "lineage looks at 1024 commits at most, settled at 10000 and ends for good.",
    ),
    ErrorCode(
        "PRG-F005",
        "The input commit is not in the history of the branch.",
        _RESTART,
        "Somebody reset the branch, or the input names another branch's commit. Under settled the"
        " attempt ends for good.",
    ),
    ErrorCode(
        "PRG-F006",
        "A decision tag does not belong to this execution.",
        "Run perago reset-task WORKFLOW REFERENCE if nobody needs the tag.",
        "The decided commit carries another key or another input. Every retry would find it again,"
        " so the attempt ends for good.",
    ),
    ErrorCode(
        "PRG-F007",
        "The target branch did not come to rest in time.",
        "Retry; if it happens often, widen the publish budget or use prefix isolation.",
        "Other writers kept moving the head for the whole budget.",
    ),
    ErrorCode(
        "PRG-F008",
        "An earlier attempt of this task decided for another input.",
        _RESTART,
        "Under prefix isolation a decision for another commit or for other params can still be"
        " published by a request on its way, beside that of this attempt. Terminal.",
    ),
    ErrorCode(
        "PRG-F009",
        "The workflow is running, so its decisions stay.",
        "Terminate the workflow first, or wait for its end.",
        "perago reset-task resets tasks of workflows that do not run.",
    ),
    ErrorCode(
        "PRG-F010",
        "Another pre-merge hook refused the publication.",
        "Read the hook's text in the reason.",
        "The refusal is final for this staged commit.",
    ),
    ErrorCode(
        "PRG-F011",
        "A file under _lakefs_actions/ is broken.",
        "Fix or remove the file that the reason names, in the commit the workflow starts from.",
        "lakeFS refuses merges, branches and tags from a commit whose hook files it cannot read."
        " A merge that settled sent ends the attempt for good: every retry sends that commit.",
    ),
    ErrorCode(
        "PRG-F012",
        "The staged commit was merged before.",
        _RESTART,
        "Somebody merged it and reverted that; merging again would change nothing. Under settled"
        " the attempt ends for good.",
    ),
    ErrorCode(
        "PRG-F013",
        "The target branch has uncommitted objects.",
        "Commit them, or reset the branch with the command in the reason.",
        "A merge would be refused, a relocation would lose them.",
    ),
    ErrorCode(
        "PRG-F014",
        "The target branch is protected, so an abandoned publication cannot be replaced.",
        "Use policy settled (perago fence install) or lineage.",
        "head-parent replaces by a hard reset, which branch protection refuses.",
    ),
    ErrorCode(
        "PRG-F015",
        "The staged prefix does not merge onto the present head.",
        _RESTART,
        "Under prefix isolation the staged commit is brought onto the head first; lakeFS saw a"
        " conflict there, or its merge would have changed objects it must not. Nothing was"
        " changed.",
    ),
    ErrorCode(
        "PRG-F020",
        "The publication fence is not in the input commit.",
        _INSTALL,
        "Policy settled, asked for or decided by an earlier attempt, needs the fence. Hook"
        " files are read from the source of a merge, so workflows started from older commits"
        " must finish or restart. The attempt ends for good: a retry has the same input.",
    ),
    ErrorCode(
        "PRG-F021",
        "The fence file of the input commit is not one of ours.",
        _INSTALL,
        "A changed filter, event or script can disarm the fence silently, so only known bytes"
        " are trusted. The attempt ends for good: a retry has the same input.",
    ),
    ErrorCode(
        "PRG-F022",
        "The server merged what the fence had to refuse.",
        "Switch hooks on in lakeFS (actions.enabled), then run perago fence verify REPO BRANCH.",
        "A canary on scratch branches tries a merge that must be refused. A worker asks again"
        " after two minutes; it needs no restart. A fence that works is proven again every ten"
        " minutes, because a server may have been restarted without hooks.",
    ),
    ErrorCode(
        "PRG-F023",
        "The fence did not run.",
        "Run perago fence verify REPO BRANCH, look at the history of the branch, then restart the"
        " worker.",
        "The publication stands, but its parent is not the expected head. The worker that saw it"
        " treats the repository as unfenced until it is restarted: a canary that works now says"
        " nothing of the server that has skipped the fence before. Under settled the attempt ends"
        " for good, because a retry would adopt the publication and hide what happened.",
    ),
    ErrorCode(
        "PRG-F024",
        "What was published under the prefix differs from what was staged.",
        "Compare the two commits in the reason; somebody published below the same prefix.",
        "Under prefix isolation the published prefix must be exactly what was checked. The attempt"
        " ends for good: a retry would adopt the publication and hide the difference.",
    ),
    ErrorCode(
        "PRG-F025",
        "A staged commit is not what an attempt of this task stages.",
        "Run perago reset-task WORKFLOW REFERENCE if it is a decision, and find out who wrote it.",
        "It must stand on the input commit, change nothing outside the prefix and nothing"
        " reserved, and be on a staging branch of this task. Who may create tags, or write to a"
        " staging branch, can put any commit there; its metadata proves nothing.",
    ),
    ErrorCode(
        "PRG-F026",
        "An earlier attempt of this task published for other params or on another branch.",
        _RESTART,
        "Retries of one scheduled task publish once. What was published stands, but it is not"
        " what this attempt was asked for: its params or its branch resolved to something else."
        " Terminal.",
    ),
)
