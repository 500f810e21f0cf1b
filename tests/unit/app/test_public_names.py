"""The public names: all of 0.6.1's, imported only when they are used."""

import subprocess
import sys

import pytest

import perago

# The names of 0.6.1, written down once: this list never follows the code.
OF_0_6_1 = [
    "__version__",
    "ExecutionLimits",
    "ExecutionMode",
    "ConductorConfig",
    "GuardrailViolation",
    "PostGuardrailViolation",
    "PublishFenceError",
    "PreGuardrailViolation",
    "PublishBudget",
    "RetryPolicy",
    "LakeFSConfig",
    "MetricRecorder",
    "MetricSpec",
    "MetricsConfig",
    "RuntimeConfig",
    "RuntimeConfigError",
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
    "WorkspaceInput",
    "WorkspaceOutput",
    "WorkspaceSpec",
    "WorkspaceDownloadFile",
    "WorkspaceSyncPlan",
    "WorkspaceUploadFile",
    "assert_current_attempt_snapshot",
    "build_taskdef",
    "build_workspace_free_task_output",
    "build_workspace_sync_plan",
    "build_workspace_task_output",
    "check_guardrails",
    "forbid_glob",
    "invoke_workspace_free_task",
    "invoke_workspace_task_body",
    "load_module_task",
    "load_runtime_config",
    "prepare_worker_runtime",
    "require_dir",
    "require_file",
    "require_glob",
    "run_workspace_free_task_attempt",
    "run_workspace_task_attempt",
    "restart_backoff_seconds",
    "staging_branch_name",
    "task",
    "worker_child_specs",
    "workspace_delete_object_paths",
    "workspace_download_files",
    "workspace_local_path",
    "workspace_upload_files",
    "write_taskdef",
]
HEAVY = "pyspark opentelemetry pydantic dependency_injector aiohttp asyncio"


@pytest.mark.parametrize("name", OF_0_6_1)
def test_a_public_name_of_0_6_1_is_public(name: str) -> None:
    assert name in perago.__all__
    assert name in dir(perago)
    assert getattr(perago, name) is not None


def test_there_were_61_names_and_every_name_of_ours_resolves() -> None:
    assert len(OF_0_6_1) == 61
    assert all(getattr(perago, name) is not None for name in perago.__all__)
    assert len(perago.__all__) == len(set(perago.__all__))


@pytest.mark.parametrize("name", ["WorkspaceGuardrail", "nothing_like_it"])
def test_other_names_are_not_public(name: str) -> None:
    with pytest.raises(AttributeError, match=f"has no attribute '{name}'"):
        getattr(perago, name)


def test_importing_perago_imports_nothing_else() -> None:
    script = f"import sys, perago; print(*set('{HEAVY}'.split()) & set(sys.modules))"
    answer = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == ""
