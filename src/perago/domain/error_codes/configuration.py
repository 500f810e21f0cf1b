"""Codes of configuration: settings, files they come from, and what commands need."""

from perago.domain.error_codes.row import ErrorCode

CONFIGURATION_CODES = (
    ErrorCode(
        "PRG-C001",
        "The configuration is wrong or incomplete.",
        "Read the message, and look with perago config show --origin.",
        "Flags win over the environment, the environment over .env, .env over [tool.perago] of"
        " pyproject.toml, that over the default.",
    ),
    ErrorCode(
        "PRG-C002",
        "A setting has a value that cannot be meant.",
        "Use a value like the one in the message; perago config show --origin says where the"
        " present one comes from.",
        "Sizes are 512KB, 100MB, 1.5GB; durations 30s, 5m, 1h, 7d; switches true and false.",
    ),
    ErrorCode(
        "PRG-C003",
        "A setting still has the placeholder of an example.",
        "Replace replace-me with the real value, or remove the line.",
        "A blank value counts as not set.",
    ),
    ErrorCode(
        "PRG-C004",
        "Only a part of the lakeFS configuration is there.",
        "Set the names in the message, or none of the three.",
        "LAKECTL_SERVER_ENDPOINT_URL, LAKECTL_CREDENTIALS_ACCESS_KEY_ID and"
        " LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY belong together. ~/.lakectl.yaml is used only"
        " when none of them is set.",
    ),
    ErrorCode(
        "PRG-C005",
        "A root directory cannot be written.",
        "Create it for the user of the worker, or set PERAGO_WORKSPACE_ROOT and PERAGO_LOG_ROOT.",
        "Both roots are probed before anything else; they are created with mode 0700.",
    ),
    ErrorCode(
        "PRG-C006",
        "A file with settings cannot be read or has what must not be there.",
        "Fix the file in the message.",
        ".env and pyproject.toml are read from the current directory. Secrets belong into the"
        " environment, .env, or a file named by NAME_FILE, never into pyproject.toml.",
    ),
    ErrorCode(
        "PRG-C007",
        "There is no usable prefix for worker ids.",
        "Set PERAGO_WORKER_ID_PREFIX to ASCII letters and digits.",
        "Without the setting the prefix is the ASCII letters and digits of the module target.",
    ),
    ErrorCode(
        "PRG-C008",
        "A worker was asked to run without executors.",
        "Give -j a number of at least 1.",
        "Each executor runs one task body at a time.",
    ),
    ErrorCode(
        "PRG-C009",
        "A task reports metrics but there is nowhere to send them, or no name to send them by.",
        "Set OTEL_EXPORTER_OTLP_METRICS_ENDPOINT and PERAGO_INSTANCE_ID.",
        "Tasks declare metrics with metrics=MetricSpec(...). The instance id is needed for"
        " worker_capacity, which is reported by each worker for itself.",
    ),
    ErrorCode(
        "PRG-C010",
        "lakeFS is not configured, and a task or a command needs it.",
        "Set PERAGO_LAKEFS to its address and LAKECTL_CREDENTIALS_ACCESS_KEY_ID and"
        " LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY, or PERAGO_LAKEFS=memory: to try things out.",
        "LAKECTL_SERVER_ENDPOINT_URL is another name of the address. Workspace-free tasks need no"
        " lakeFS.",
    ),
    ErrorCode(
        "PRG-C011",
        "Conductor is not configured.",
        "Set CONDUCTOR_SERVER_URL to the address of its API, or PERAGO_CONDUCTOR=memory:.",
        "The address ends in /api in a usual installation.",
    ),
    ErrorCode(
        "PRG-C012",
        "No adapter is installed for an address.",
        "Use memory:, http: or https:, or install the package that provides the scheme.",
        "Packages provide adapters through the entry point group perago.adapters.",
    ),
    ErrorCode(
        "PRG-C013",
        "A root directory, or one above it, belongs to another user or can be written by others.",
        "Use a directory of the worker's user: mkdir -p -m 700 ~/perago, and set the name in the"
        " message to it; or chmod go-w PATH where the directory is yours.",
        "Whoever can write to a root can replace attempt directories, cached content and logs, or"
        " make Perago write to other files of its user. Directories above may be root's. /tmp and"
        " a mounted volume (an emptyDir of Kubernetes) may be above a root, because there only the"
        " owner of a directory can rename it, or nobody else is.",
    ),
    ErrorCode(
        "PRG-C014",
        "Task code cannot run as the user that PERAGO_EXECUTOR_USER names.",
        "Do what the message says, or unset PERAGO_EXECUTOR_USER.",
        "The worker must be root, or have the capabilities CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER,"
        " CAP_KILL, CAP_SETGID and CAP_SETUID. The user must be another one than the worker's and"
        " not root, must be able to run the worker's Python, and to enter PERAGO_WORKSPACE_ROOT.",
    ),
)
