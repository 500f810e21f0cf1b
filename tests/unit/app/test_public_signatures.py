"""Calls as 0.6.1 took them still bind: names, order and what may be left out."""

import inspect
from dataclasses import fields, is_dataclass
from typing import cast

import pytest
from pydantic import BaseModel

import perago

# Written down from 0.6.1; `*` begins the keyword-only ones, `=` may be left out.
FUNCTIONS = {
    "task": "* name owner_email description= workspace= metrics= controls= strict_params=",
    "load_module_task": "module_target",
    "require_file": "path",
    "require_dir": "path",
    "require_glob": "pattern * min_count= max_count=",
    "forbid_glob": "pattern",
    "check_guardrails": "root guardrails phase",
    "run_workspace_task_attempt": (
        "task input_data attempt workspace_root * download_workspace load_current_attempt"
        " stage_workspace publish_workspace cleanup_staging complete_noop_workspace="
        " owner_worker_id= execution_id= metrics= failure_reason_max_length"
    ),
    "run_workspace_free_task_attempt": "task input_data * metrics= failure_reason_max_length",
    "invoke_workspace_task_body": "task input_data workspace_dir * metrics=",
    "invoke_workspace_free_task": "task input_data * metrics=",
    "build_workspace_task_output": "task input_workspace published_ref raw_result",
    "build_workspace_free_task_output": "task raw_result",
    "assert_current_attempt_snapshot": "task fresh",
    "staging_branch_name": "task",
    "build_taskdef": "task",
    "write_taskdef": "task output",
    "load_runtime_config": "module_target * cwd= process_env= probe_roots=",
    "prepare_worker_runtime": "* config module_target env",
    "worker_child_specs": "* base_env module_target process_count",
    "restart_backoff_seconds": "restart_count",
    "build_workspace_sync_plan": "workspace_dir workspace_spec existing_object_paths",
    "workspace_upload_files": "workspace_dir workspace_spec",
    "workspace_download_files": "workspace_dir workspace_spec object_paths",
    "workspace_delete_object_paths": "workspace_spec existing_object_paths uploaded_files",
    "workspace_local_path": "workspace_spec object_path",
}
RECORDS = {
    "TaskDefinition": (
        "name owner_email fn params_model output_model strict_params description workspace"
        " metrics controls"
    ),
    "StagedWorkspace": "repository branch commit",
    "TaskExecutionContext": "attempt execution_id",
    "WorkerRuntime": "worker_id log_file swept_workspaces",
    "WorkerChildSpec": "slot env",
    "WorkspaceUploadFile": "local_path object_path",
    "WorkspaceDownloadFile": "object_path local_path",
    "WorkspaceSyncPlan": "upload_files delete_object_paths",
    "RuntimeConfig": (
        "workspace_root log_root log_file_max_size log_retention worker_id_prefix"
        " execution_mode workspace_gc_ttl workspace_gc_interval shutdown_force_kill_after"
        " failure_reason_max_length conductor lakefs metrics"
    ),
    "ConductorConfig": "server_url",
    "LakeFSConfig": "endpoint_url access_key_id secret_access_key",
    "MetricsConfig": "endpoint instance_id compression timeout_millis export_interval_millis",
}
METHODS = {
    "with_context": "context",
    "histogram": "name value * labels=",
    "gauge": "name value * labels=",
    "timer": "name * labels=",
    "runtime_histogram": "name value * context labels=",
    "runtime_gauge": "name value * context labels=",
    "runtime_timer": "name * context labels=",
}


def check(function: object, described: str) -> None:
    positional, _, keywords = described.partition("*")
    signature = inspect.signature(cast("type", function))
    arguments = [object() for name in positional.split() if not name.endswith("=")]
    named = {name.rstrip("="): object() for name in keywords.split()}
    signature.bind(*arguments, **named)
    required = {name: each for name, each in named.items() if f"{name}=" not in keywords.split()}
    signature.bind(*arguments, **required)
    by_name = dict(zip(positional.split(), arguments, strict=True))
    signature.bind(**by_name, **named)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_call_of_0_6_1_still_binds(name: str) -> None:
    check(getattr(perago, name), FUNCTIONS[name])


@pytest.mark.parametrize("name", METHODS)
def test_a_recorder_is_called_as_before(name: str) -> None:
    positional = METHODS[name]
    check(getattr(perago.MetricRecorder, name), f"self {positional}")


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_keeps_its_fields_in_order(name: str) -> None:
    record = getattr(perago, name)
    found = (
        [each.name for each in fields(record)]
        if is_dataclass(record)
        else list(cast("type[BaseModel]", record).model_fields)
    )
    assert found[: len(RECORDS[name].split())] == RECORDS[name].split()
