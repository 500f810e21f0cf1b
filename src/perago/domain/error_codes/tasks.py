"""Codes of declarations: tasks, modules, workspaces, guardrails, controls, TaskDefs."""

from perago.domain.error_codes.row import ErrorCode

TASK_CODES = (
    ErrorCode(
        "PRG-T001",
        "A task is declared in a way Perago does not accept.",
        "Read the message: it names the rule; the reference of @task lists them all.",
        "Declarations are checked when the module is imported, before anything runs.",
    ),
    ErrorCode(
        "PRG-T002",
        "@task was given a keyword it does not know.",
        "Remove the keyword; params and result are taken from the annotations.",
        "Known keywords: name, owner_email, description, workspace, metrics, controls,"
        " strict_params.",
    ),
    ErrorCode(
        "PRG-T003",
        "The name or the owner of a task is missing or impossible.",
        "Give a name without / and \\ and an owner_email that is not blank.",
        "The name is the Conductor task type. Dots are customary: features.build.",
    ),
    ErrorCode(
        "PRG-T004",
        "A keyword of @task has a value of the wrong type.",
        "Pass WorkspaceSpec, MetricSpec, TaskControls or a bool, as the message says.",
        "Dictionaries are not accepted, so that a misspelt field cannot be overlooked.",
    ),
    ErrorCode(
        "PRG-T005",
        "A publish budget was given to a task that publishes nothing.",
        "Declare workspace=WorkspaceSpec(...), or remove publish_budget.",
        "The budget times the merge of a workspace; a workspace-free task has none.",
    ),
    ErrorCode(
        "PRG-T006",
        "The task function is asynchronous.",
        "Declare it with def; run an event loop inside if you need one.",
        "Bodies run in a process or thread of their own, one at a time.",
    ),
    ErrorCode(
        "PRG-T007",
        "The task function has parameters that Perago cannot fill.",
        "Use plain parameters without defaults: workspace, params, metrics.",
        "No *args, **kwargs, keyword-only or positional-only parameters, and no defaults:"
        " defaults belong into the params model, where the schema shows them.",
    ),
    ErrorCode(
        "PRG-T008",
        "An annotation of the task function cannot be resolved.",
        "Import the named type at run time, not only for type checkers.",
        "The models are read from the annotations when the module is imported; a name under"
        " `if TYPE_CHECKING` does not exist then.",
    ),
    ErrorCode(
        "PRG-T009",
        "The parameters of the task function do not match its declaration.",
        "Use one of the four signatures, and declare workspace and metrics to match.",
        "(workspace: Path, params: P), (workspace: Path, params: P, metrics: MetricRecorder),"
        " (params: P), (params: P, metrics: MetricRecorder). A workspace parameter needs"
        " workspace=WorkspaceSpec(...), a metrics parameter metrics=MetricSpec(...), and the"
        " other way round.",
    ),
    ErrorCode(
        "PRG-T010",
        "Params or result are not annotated with a pydantic model.",
        "Annotate both with subclasses of pydantic.BaseModel.",
        "The models are the contract: the TaskDef's schemas are made of them.",
    ),
    ErrorCode(
        "PRG-T011",
        "A task module cannot be imported.",
        "Fix the lines shown; they are the module's own.",
        "The current directory is importable. Modules are named with dots, as in an import"
        " statement, and import what they import.",
    ),
    ErrorCode(
        "PRG-T012",
        "A RootModel is part of a task's contract.",
        "Wrap it: a BaseModel with one field that holds the value.",
        "Params and results are JSON objects in Conductor; a RootModel is not one.",
    ),
    ErrorCode(
        "PRG-T013",
        "A module target is not a dotted name.",
        "Write app.workers.features, not app/workers/features.py or app.workers:task.",
        "A target is what an import statement would name.",
    ),
    ErrorCode(
        "PRG-T014",
        "A module declares no task, none of that name, several, or one whose name is taken.",
        "Declare a task with @task, give each a name of its own, and choose one with --task NAME.",
        "Only functions defined in the module count, imported ones do not. check, register, start"
        " and dev take all tasks of all modules they are given; run and extract take one task, and"
        " load_module_task expects a module that declares exactly one.",
    ),
    ErrorCode(
        "PRG-T015",
        "The prefix of a workspace is not a folder of the repository.",
        "Write it like data/raw: no empty, . or .. segment, no trailing slash, no backslash.",
        'The whole repository is prefix="/", which is the default.',
    ),
    ErrorCode(
        "PRG-T016",
        "A guardrail names a path outside the workspace, or bounds that cannot hold.",
        "Use a relative POSIX path or pattern without .., and min_count <= max_count.",
        "Paths are relative to the prefix. In a pattern ** stands for directories and must be"
        " a whole segment.",
    ),
    ErrorCode(
        "PRG-T017",
        "Controls contradict each other.",
        "Read the message: it names the fields that belong together.",
        "The rate limit needs both of its fields; the merge time-out of a publish budget must"
        " cover what was observed plus the margin.",
    ),
    ErrorCode(
        "PRG-T018",
        "A TaskDef cannot be written to the path that was given.",
        "Name a file that ends in .json, for example generated/features.build.json.",
        "Parents are created; an existing directory is never replaced.",
    ),
    ErrorCode(
        "PRG-T019",
        "The TaskDef in Conductor differs from the code, or is not there.",
        "Run perago register MODULE; perago register --dry-run MODULE shows the difference.",
        "Workers compare the registered TaskDef with the code when they start. A missing one"
        " is refused, a different one is a warning unless --strict-taskdef is given.",
    ),
    ErrorCode(
        "PRG-T020",
        "There is no module of this name.",
        "Run the command in the directory that holds it, and write app.words for app/words.py.",
        "The current directory is importable, and so is everything that is installed or on"
        " PYTHONPATH. A folder on the way to the module is written with a dot.",
    ),
    ErrorCode(
        "PRG-T021",
        "A field of params or result cannot be described in JSON.",
        "Use types with a JSON form in the field that the message names.",
        "Params and results travel as JSON, and the TaskDef has their schemas. A callable, an"
        " open file or a class that pydantic does not know has none.",
    ),
)
