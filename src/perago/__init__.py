"""Perago: Conductor tasks on lakeFS workspaces, published as one transaction.

Every public name is here and is imported when it is first used, so that `import perago` costs
next to nothing. No logic.
"""

from importlib import import_module

from perago._version import __version__

TYPE_CHECKING = False  # so that the module `typing` is not imported for it
if TYPE_CHECKING:
    from perago.app.authoring.current_attempt import CurrentAttempt, current_attempt
    from perago.app.authoring.guardrails import (
        check_guardrails,
        forbid_glob,
        require_dir,
        require_file,
        require_glob,
    )
    from perago.app.authoring.invocation import (
        invoke_workspace_free_task,
        invoke_workspace_task_body,
    )
    from perago.app.authoring.metrics import MetricRecorder
    from perago.app.authoring.task_declaration import load_module_task, task
    from perago.app.authoring.task_definition import (
        ExecutionLimits,
        MetricSpec,
        PublishBudget,
        RetryPolicy,
        TaskControls,
        TaskDefinition,
        TimeoutPolicy,
        build_taskdef,
        write_taskdef,
    )
    from perago.app.authoring.workspace_spec import (
        StagedView,
        WorkspaceInput,
        WorkspaceOutput,
        WorkspaceSpec,
    )
    from perago.app.settings.runtime_config import (
        ConductorConfig,
        LakeFSConfig,
        MetricsConfig,
        RuntimeConfig,
        load_runtime_config,
    )
    from perago.app.settings.settings import ExecutionMode
    from perago.app.worker_description import (
        WorkerChildSpec,
        WorkerRuntime,
        prepare_worker_runtime,
        restart_backoff_seconds,
        worker_child_specs,
    )
    from perago.compat.caller_transfers import (
        StagedWorkspace,
        TaskExecutionContext,
        WorkspaceDownloadFile,
        WorkspaceSyncPlan,
        WorkspaceUploadFile,
        assert_current_attempt_snapshot,
        build_workspace_free_task_output,
        build_workspace_sync_plan,
        build_workspace_task_output,
        staging_branch_name,
        workspace_delete_object_paths,
        workspace_download_files,
        workspace_local_path,
        workspace_upload_files,
    )
    from perago.compat.run_with_callbacks import (
        run_workspace_free_task_attempt,
        run_workspace_task_attempt,
    )
    from perago.domain.errors import (
        GuardrailViolation,
        PostGuardrailViolation,
        PreGuardrailViolation,
        PublishFenceError,
        RuntimeConfigError,
        StaleAttemptError,
        TaskDefinitionError,
        TaskExecutionError,
        TaskFailed,
        TaskInputError,
        TaskTerminalError,
    )
    from perago.ports.task_body import Changes, Checkpoint
    from perago.ports.workspace import SparkWorkspace

__all__ = [
    "Changes",
    "Checkpoint",
    "ConductorConfig",
    "CurrentAttempt",
    "ExecutionLimits",
    "ExecutionMode",
    "GuardrailViolation",
    "LakeFSConfig",
    "MetricRecorder",
    "MetricSpec",
    "MetricsConfig",
    "PostGuardrailViolation",
    "PreGuardrailViolation",
    "PublishBudget",
    "PublishFenceError",
    "RetryPolicy",
    "RuntimeConfig",
    "RuntimeConfigError",
    "SparkWorkspace",
    "StagedView",
    "StagedWorkspace",
    "StaleAttemptError",
    "TaskControls",
    "TaskDefinition",
    "TaskDefinitionError",
    "TaskExecutionContext",
    "TaskExecutionError",
    "TaskFailed",
    "TaskInputError",
    "TaskTerminalError",
    "TimeoutPolicy",
    "WorkerChildSpec",
    "WorkerRuntime",
    "WorkspaceDownloadFile",
    "WorkspaceInput",
    "WorkspaceOutput",
    "WorkspaceSpec",
    "WorkspaceSyncPlan",
    "WorkspaceUploadFile",
    "__version__",
    "assert_current_attempt_snapshot",
    "build_taskdef",
    "build_workspace_free_task_output",
    "build_workspace_sync_plan",
    "build_workspace_task_output",
    "check_guardrails",
    "current_attempt",
    "forbid_glob",
    "invoke_workspace_free_task",
    "invoke_workspace_task_body",
    "load_module_task",
    "load_runtime_config",
    "prepare_worker_runtime",
    "require_dir",
    "require_file",
    "require_glob",
    "restart_backoff_seconds",
    "run_workspace_free_task_attempt",
    "run_workspace_task_attempt",
    "staging_branch_name",
    "task",
    "worker_child_specs",
    "workspace_delete_object_paths",
    "workspace_download_files",
    "workspace_local_path",
    "workspace_upload_files",
    "write_taskdef",
]

# Where each public name lives.
_HOMES = {
    "perago.app.authoring.current_attempt": "CurrentAttempt current_attempt",
    "perago.app.authoring.guardrails": (
        "forbid_glob require_dir require_file require_glob check_guardrails"
    ),
    "perago.app.authoring.invocation": "invoke_workspace_free_task invoke_workspace_task_body",
    "perago.app.authoring.metrics": "MetricRecorder",
    "perago.app.authoring.task_definition": (
        "MetricSpec ExecutionLimits PublishBudget RetryPolicy TaskControls TimeoutPolicy "
        "TaskDefinition build_taskdef write_taskdef"
    ),
    "perago.app.authoring.task_declaration": "load_module_task task",
    "perago.app.authoring.workspace_spec": (
        "StagedView WorkspaceInput WorkspaceOutput WorkspaceSpec"
    ),
    "perago.compat.caller_transfers": (
        "StagedWorkspace TaskExecutionContext assert_current_attempt_snapshot "
        "staging_branch_name WorkspaceDownloadFile WorkspaceSyncPlan WorkspaceUploadFile "
        "build_workspace_sync_plan workspace_delete_object_paths workspace_download_files "
        "workspace_local_path workspace_upload_files build_workspace_free_task_output "
        "build_workspace_task_output"
    ),
    "perago.compat.run_with_callbacks": (
        "run_workspace_free_task_attempt run_workspace_task_attempt"
    ),
    "perago.app.settings.settings": "ExecutionMode",
    "perago.app.settings.runtime_config": (
        "ConductorConfig LakeFSConfig MetricsConfig RuntimeConfig load_runtime_config"
    ),
    "perago.app.worker_description": (
        "WorkerChildSpec WorkerRuntime prepare_worker_runtime restart_backoff_seconds "
        "worker_child_specs"
    ),
    "perago.domain.errors": (
        "GuardrailViolation PostGuardrailViolation PreGuardrailViolation "
        "RuntimeConfigError TaskDefinitionError TaskExecutionError TaskFailed "
        "TaskInputError TaskTerminalError PublishFenceError StaleAttemptError"
    ),
    "perago.ports.task_body": "Changes Checkpoint",
    "perago.ports.workspace": "SparkWorkspace",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
