"""Executors as descriptions, and the log file of a worker."""

import os
import re
from pathlib import Path

import pytest

from perago.app.settings.runtime_config import load_runtime_config
from perago.app.worker_description import (
    prepare_worker_runtime,
    restart_backoff_seconds,
    safe_segment,
    worker_child_specs,
)
from perago.domain.errors import RuntimeConfigError


def test_executors_are_numbered_from_one() -> None:
    specs = worker_child_specs(base_env={"A": "1"}, module_target="x.y", process_count=2)
    assert [(each.slot, each.worker_id) for each in specs] == [(1, "xy0001"), (2, "xy0002")]
    assert specs[0].env == {
        "A": "1",
        "PERAGO_WORKER_ID_PREFIX": "xy",
        "PERAGO_WORKER_ID": "xy0001",
    }


def test_a_worker_needs_an_executor() -> None:
    with pytest.raises(RuntimeConfigError, match="worker process count must be at least 1"):
        worker_child_specs(base_env={}, module_target="x", process_count=0)


def test_restarts_wait_longer_up_to_half_a_minute() -> None:
    assert [restart_backoff_seconds(each) for each in range(8)] == [1, 2, 4, 8, 16, 30, 30, 30]
    with pytest.raises(ValueError, match="restart_count must be >= 0"):
        restart_backoff_seconds(-1)


@pytest.mark.parametrize(
    ("text", "segment"),
    [("a.b c", "a.b_c"), ("w/1 x", "w_1_x"), ("é", "unknown"), ("..", "unknown"), ("a=b", "a=b")],
)
def test_a_segment_is_safe_in_a_path(text: str, segment: str) -> None:
    assert safe_segment(text) == segment


def test_the_log_file_says_module_worker_process_and_time(tmp_path: Path) -> None:
    config = load_runtime_config(
        "a.b", cwd=tmp_path, process_env={"PERAGO_LOG_ROOT": str(tmp_path)}, probe_roots=False
    )
    runtime = prepare_worker_runtime(
        config=config, module_target="a.b c", env={"PERAGO_WORKER_ID": "w/1 x"}
    )
    assert (runtime.worker_id, runtime.swept_workspaces) == ("w/1 x", [])
    assert runtime.log_file.parent == tmp_path / "a.b_c" / "worker_id=w_1_x"
    assert re.fullmatch(
        rf"pid={os.getpid()}__started=\d{{8}}T\d{{6}}\+0000\.jsonl", runtime.log_file.name
    )
    assert runtime.log_file.parent.is_dir()
    assert not runtime.log_file.exists()
