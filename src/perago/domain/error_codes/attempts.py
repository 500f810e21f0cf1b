"""Codes of one attempt: its input, its body, its result, its guardrails, its directory."""

from perago.domain.error_codes.row import ErrorCode

ATTEMPT_CODES = (
    ErrorCode(
        "PRG-I001",
        "The task input lacks params, or is no object.",
        "Map workspace and params in inputParameters of the workflow.",
        "A workspace task gets {workspace, params}, a workspace-free one {params}.",
    ),
    ErrorCode(
        "PRG-I002",
        "The workspace object of the input is wrong.",
        "Pass the workspace output of the task before, unchanged.",
        "It has repository, branch, ref and refType (or ref_type), which is commit, and nothing"
        " else.",
    ),
    ErrorCode(
        "PRG-I003",
        "The params do not fit the params model.",
        "Fix the field named in the reason; values are not shown, they may be secret.",
        "Unknown params are dropped, or refused with strict_params=True.",
    ),
    ErrorCode(
        "PRG-I004",
        "The workspace in the input is null or missing.",
        "Look at the task that should have produced it, and at the input expression.",
        "Conductor resolves an expression against the newest attempt of a task. If that attempt"
        " has no output yet, or the path is misspelt, the value is null. Retrying this task"
        " cannot help.",
    ),
    ErrorCode(
        "PRG-I005",
        "The task input has unknown top-level keys.",
        "Remove them from inputParameters, or unset PERAGO_STRICT_INPUT.",
        "Such keys are ignored unless PERAGO_STRICT_INPUT=true. traceparent is known and never"
        " refused.",
    ),
    ErrorCode(
        "PRG-I006",
        "The input names something that is not a commit.",
        "Pass a commit id, as every workspace output has it.",
        "A branch or a tag moves; an attempt that is retried must start from the same place.",
    ),
    ErrorCode(
        "PRG-I007",
        "A function for one kind of task was called with the other kind.",
        "Use the workspace or the workspace-free function, as the message says.",
        "Kinds are told apart by workspace=WorkspaceSpec(...) in the declaration.",
    ),
    ErrorCode(
        "PRG-I008",
        "refType and ref_type were both given, with different values.",
        "Give one of them.",
        "Both spellings are read; the output has the spelling of the input.",
    ),
    ErrorCode(
        "PRG-I010",
        "The result is too large for a decision.",
        "Write the data into the workspace and return its path.",
        "Under policy settled the result is kept with the decision, so that a retry can finish"
        " it; Conductor has a limit of its own as well.",
    ),
    ErrorCode(
        "PRG-I011",
        "The result is not JSON.",
        "Return numbers that are neither NaN nor infinite.",
        "JSON has no NaN and no infinity; Conductor would refuse the update.",
    ),
    ErrorCode(
        "PRG-I012",
        "The stored result of a decision is damaged.",
        "Once the workflow has ended, run perago reset-task WORKFLOW REFERENCE and retry it; it"
        " computes again.",
        "Somebody changed or removed commits of a staging branch.",
    ),
    ErrorCode(
        "PRG-R001",
        "The body returned something that is not its result model.",
        "Fix the field named in the reason, or the model.",
        "A result is an instance of the model or a dictionary; unknown fields are refused.",
    ),
    ErrorCode(
        "PRG-R002",
        "The result cannot be handed from the executor to the worker.",
        "Return less, or write the data into the workspace and return its path.",
        "A result travels as JSON between two processes, within a limit.",
    ),
    ErrorCode(
        "PRG-R003",
        "A stored result does not fit today's result model.",
        "Deploy the code that decided. Or, once the workflow has ended, run perago reset-task"
        " WORKFLOW REFERENCE and retry it; it computes again.",
        "A retry finishes what an earlier attempt decided, with its result. A deploy in between"
        " may have changed the model.",
    ),
    ErrorCode(
        "PRG-R004",
        "Conductor did not take the output of an attempt that succeeded.",
        "Return less, or write the data into the workspace and return its path.",
        "The server refused the update for good, as too large for example, so the attempt reports"
        " FAILED instead of waiting for its response time-out. What it published stands: a retry"
        " under settled finishes that, another policy replaces it.",
    ),
    ErrorCode(
        "PRG-B001",
        "The body raised TaskFailed.",
        "The reason is the author's; Conductor retries as the TaskDef says.",
        "For failures that a retry may repair.",
    ),
    ErrorCode(
        "PRG-B002",
        "The body raised TaskTerminalError.",
        "The reason is the author's; there is no retry.",
        "For failures that no retry can repair.",
    ),
    ErrorCode(
        "PRG-B003",
        "The body ended the attempt with a reason of its own.",
        "Read the reason.",
        "Raise TaskFailed or TaskTerminalError rather than their base class.",
    ),
    ErrorCode(
        "PRG-B004",
        "The body raised an exception, or was ended.",
        "Look for the traceback in the log of the worker.",
        "The reason has the exception's type and text. Conductor retries.",
    ),
    ErrorCode(
        "PRG-G001",
        "A guardrail did not hold before the body ran.",
        "Look at the input commit; the guardrail is named in the reason.",
        "Terminal: the input of a retry is the same.",
    ),
    ErrorCode(
        "PRG-G002",
        "A guardrail did not hold after the body ran.",
        "Look at what the body wrote; nothing was published.",
        "Conductor retries as the TaskDef says.",
    ),
    ErrorCode(
        "PRG-W001",
        "A body wrote to a reserved path.",
        "Write elsewhere; _lakefs_actions/ belongs to lakeFS and the publication fence.",
        "The folder is never materialised, never staged, never deleted.",
    ),
    ErrorCode(
        "PRG-W002",
        "A name cannot be both an object and a local file.",
        "Rename the object or file that the message names.",
        "Backslashes, drive letters, empty, . and .. segments, names that are too long, a file"
        " beside a folder of its name. Refused before anything moves, in both directions.",
    ),
    ErrorCode(
        "PRG-W003",
        "The directory of the attempt vanished or belongs to somebody else.",
        "Keep cleaners away from PERAGO_WORKSPACE_ROOT, and give each worker its own.",
        "An empty directory is never taken for a deletion of everything.",
    ),
    ErrorCode(
        "PRG-W004",
        "The local disk refused to write or read.",
        "Free space or fix permissions under PERAGO_WORKSPACE_ROOT.",
        "Nothing half-written is published.",
    ),
    ErrorCode(
        "PRG-W005",
        "A symlink stands in the workspace.",
        "Write regular files.",
        "lakeFS has no symlinks, and following them could publish files of the machine.",
    ),
)
