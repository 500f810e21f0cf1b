"""The TaskDef document: keys in order, where each value comes from, and where it is written."""

import json
import warnings
from pathlib import Path

import pytest
from pydantic import BaseModel, RootModel

from perago.app.authoring.task_definition import (
    ExecutionLimits,
    PublishBudget,
    RetryPolicy,
    TaskControls,
    TaskDefinition,
    TimeoutPolicy,
    build_taskdef,
    workspace_schema,
    write_taskdef,
)
from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.domain.errors import TaskDefinitionError

ALWAYS = [
    *("name", "ownerEmail"),
    *("retryCount", "retryLogic", "retryDelaySeconds", "maxRetryDelaySeconds"),
    *("backoffJitterMs", "totalTimeoutSeconds", "timeoutPolicy", "timeoutSeconds"),
    *("responseTimeoutSeconds", "pollTimeoutSeconds"),
]
LIMITS = ["concurrentExecLimit", "rateLimitFrequencyInSeconds", "rateLimitPerFrequency"]
CONTRACT = ["inputKeys", "outputKeys", "inputSchema", "outputSchema"]
SLOW = PublishBudget(
    observed_merge_p99_seconds=1,
    safety_margin_seconds=1,
    lakefs_merge_timeout_seconds=500,
    conductor_completion_timeout_seconds=100,
    worker_shutdown_grace_seconds=10,
    heartbeat_interval_seconds=2,
)


class Params(BaseModel):
    """Nested, so that closing reaches inside."""

    class Inner(BaseModel):
        """Inside."""

        z: int

    inner: Inner


class Result(BaseModel):
    """A result."""

    x: int = 1


class Node(BaseModel):
    """Recursive."""

    below: list["Node"] = []


class Numbers(RootModel[list[int]]):
    """Not an object model."""


def definition(
    *,
    params: type[BaseModel] = Params,
    strict: bool = False,
    description: str | None = None,
    workspace: WorkspaceSpec | None = None,
    controls: TaskControls | None = None,
) -> TaskDefinition:
    return TaskDefinition(
        name="features.build",
        owner_email="team",
        fn=print,
        params_model=params,
        output_model=Result,
        strict_params=strict,
        description=description,
        workspace=workspace,
        controls=controls or TaskControls(),
    )


def test_the_keys_come_in_the_order_of_0_6_1() -> None:
    assert list(build_taskdef(definition())) == ALWAYS + CONTRACT
    controls = TaskControls(
        limits=ExecutionLimits(
            concurrent_exec_limit=0,
            rate_limit_frequency_in_seconds=1,
            rate_limit_per_frequency=2,
        )
    )
    full = build_taskdef(definition(description="", controls=controls))
    assert list(full) == [*ALWAYS[:2], "description", *ALWAYS[2:], *LIMITS, *CONTRACT]
    assert [full[key] for key in LIMITS] == [0, 1, 2]


def test_every_control_has_its_key() -> None:
    controls = TaskControls(
        retry=RetryPolicy(
            count=1,
            logic="LINEAR_BACKOFF",
            delay_seconds=2,
            max_delay_seconds=3,
            jitter_ms=4,
        ),
        timeout=TimeoutPolicy(
            policy="RETRY", seconds=5, response_seconds=6, poll_seconds=7, total_seconds=8
        ),
    )
    built = build_taskdef(definition(controls=controls))
    assert {key: built[key] for key in ALWAYS} == {
        "name": "features.build",
        "ownerEmail": "team",
        "retryCount": 1,
        "retryLogic": "LINEAR_BACKOFF",
        "retryDelaySeconds": 2,
        "maxRetryDelaySeconds": 3,
        "backoffJitterMs": 4,
        "totalTimeoutSeconds": 8,
        "timeoutPolicy": "RETRY",
        "timeoutSeconds": 5,
        "responseTimeoutSeconds": 6,
        "pollTimeoutSeconds": 7,
    }


@pytest.mark.parametrize(
    ("workspace", "inputs", "outputs"),
    [
        (None, ["params"], ["result"]),
        (WorkspaceSpec(), ["workspace", "params"], ["workspace", "result"]),
    ],
    ids=["workspace-free", "workspace"],
)
def test_keys_and_schemas_follow_the_kind_of_task(
    workspace: WorkspaceSpec | None, inputs: list[str], outputs: list[str]
) -> None:
    built = build_taskdef(definition(workspace=workspace))
    assert (built["inputKeys"], built["outputKeys"]) == (inputs, outputs)
    for side, keys, is_open in (("input", inputs, True), ("output", outputs, False)):
        schema = built[f"{side}Schema"]
        data = schema["data"]
        assert (schema["name"], schema["version"], schema["type"]) == (
            f"features.build.{side}",
            1,
            "JSON",
        )
        assert (list(data["properties"]), data["required"]) == (keys, keys)
        assert data["additionalProperties"] is is_open


@pytest.mark.parametrize("strict", [True, False])
def test_params_are_open_at_every_level_unless_strict(*, strict: bool) -> None:
    built = build_taskdef(definition(strict=strict, workspace=WorkspaceSpec()))
    given = built["inputSchema"]["data"]["properties"]
    assert given["params"]["additionalProperties"] is not strict
    assert given["params"]["properties"]["inner"]["additionalProperties"] is not strict
    assert given["workspace"]["additionalProperties"] is False
    written = built["outputSchema"]["data"]["properties"]
    assert written["result"]["additionalProperties"] is False


def test_the_workspace_needs_one_spelling_of_its_reference_type() -> None:
    schema = workspace_schema()
    assert set(schema["properties"]) == {"repository", "branch", "refType", "ref_type", "ref"}
    assert schema["required"] == ["repository", "branch", "ref"]
    assert schema["anyOf"] == [{"required": ["refType"]}, {"required": ["ref_type"]}]


def test_a_recursive_model_is_a_definition_of_the_whole_schema() -> None:
    data = build_taskdef(definition(params=Node))["inputSchema"]["data"]
    assert data["properties"]["params"] == {"$ref": "#/$defs/Node"}
    assert set(data["$defs"]) == {"Node"}


def test_a_root_model_is_refused() -> None:
    with pytest.raises(TaskDefinitionError, match="RootModel"):
        build_taskdef(definition(params=Numbers))


def test_a_lease_shorter_than_the_budget_is_said() -> None:
    controls = TaskControls(publish_budget=SLOW)
    with pytest.warns(UserWarning, match="shorter than") as caught:
        built = build_taskdef(definition(controls=controls, workspace=WorkspaceSpec()))
    (warning,) = caught
    assert str(warning.message) == (
        "Task 'features.build' has TaskControls.timeout.response_seconds=600 which is shorter"
        " than publish_budget.response_timeout_seconds=612; responseTimeoutSeconds will use"
        " timeout.response_seconds"
    )
    assert warning.filename == __file__
    assert built["responseTimeoutSeconds"] == 600


def test_a_lease_that_suffices_or_a_read_only_task_is_not_worth_a_warning() -> None:
    enough = TaskControls(publish_budget=SLOW, timeout=TimeoutPolicy(response_seconds=612))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        build_taskdef(definition(controls=enough, workspace=WorkspaceSpec()))
        build_taskdef(
            definition(
                controls=TaskControls(publish_budget=SLOW),
                workspace=WorkspaceSpec(read_only=True),
            )
        )


def test_the_file_is_two_space_json_with_a_newline(tmp_path: Path) -> None:
    target = tmp_path / "new" / "features.build.json"
    assert write_taskdef(definition(), target) == target
    text = target.read_text()
    assert text.startswith('{\n  "name": "features.build",\n')
    assert text.endswith("}\n")
    assert list(json.loads(text)) == ALWAYS + CONTRACT


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "taskdef",
            "output must be a JSON file path, for example generated/features.build.json",
        ),
        ("x.JSON", "output must be a JSON file path, for example"),
        (".json", "output must be a JSON file path, for example"),
        ("folder.json", "output must be a JSON file path, not a directory"),
    ],
)
def test_a_file_that_is_no_json_file_is_refused(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(ValueError, match=text):
        write_taskdef(definition(), tmp_path / name)
    assert list(tmp_path.iterdir()) == [tmp_path / "folder.json"]
