"""Dashboard and alert rules ask for what a worker emits, and each alert leads to its entry.

The metrics are those of a real attempt on the servers in memory, and of what else the listeners
hear; the expressions are parsed as PromQL in tests/integration/test_deploy_lint.py.
"""

import asyncio
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.unit.app.attempt.attempt_harness import AttemptHarness
from tests.unit.app.attempt.attempt_scene import TASK
from tools.build_docs import slug

from perago.app.attempt.complete import Recorded
from perago.app.attempt.context import Attempt
from perago.app.attempt.ending import HANDED_BACK
from perago.app.attempt.run_attempt import run_attempt
from perago.app.telemetry import metrics as module
from perago.app.telemetry.listeners import AttemptEvents
from perago.app.telemetry.metrics import HISTOGRAM_PARTS, AttemptMetrics, BodyTelemetry, Metrics
from perago.domain.attempt import AttemptStatus
from perago.domain.errors import OutcomeUnknownAtDeadlineError, StaleAttemptError
from perago.domain.policy import PolicySetting
from perago.domain.publication import EFFECT_LABELS
from perago.ports.errors import UnavailableError
from perago.ports.task_body import NoLease
from perago.ports.workspace import Phase

ROOT = Path(__file__).parents[2]
MONITORING = ROOT / "deploy/monitoring"
PAGE = (ROOT / "docs/how-to/troubleshoot.md").read_text(encoding="utf-8")
METRIC = re.compile(r"\bruntime_\w+")
SELECTOR = re.compile(r'(\w+)(=~|!=|!~|=)"([^"]*)"')
GROUPED = re.compile(r"\bby \(([\w, ]+)\)")
LEGEND = re.compile(r"\{\{ ?(?:\$labels\.)?(\w+) ?\}\}")


def read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((MONITORING / name).read_text(encoding="utf-8"))
    return found


def rules() -> list[dict[str, Any]]:
    (group,) = read("alerts.json")["spec"]["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def expressions() -> list[tuple[str, str]]:
    """Each expression, and the text around it that names labels."""
    asked = [(each["expr"], each["annotations"]["summary"]) for each in rules()]
    for panel in read("dashboard.json")["panels"]:
        asked += [(each["expr"], each["legendFormat"]) for each in panel["targets"]]
    return asked


@pytest.fixture(scope="module")
def emitted(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, set[str]]:
    """Every metric of a worker by its name for Prometheus, with its labels."""
    metrics = asyncio.run(_heard(tmp_path_factory.mktemp("attempt")))
    found: dict[str, set[str]] = {}
    for series in (metrics.counters, metrics.gauges, metrics.histograms):
        for name, labelled in series.items():
            labels = {label for key in labelled for label, _ in key}
            parts = HISTOGRAM_PARTS if series is metrics.histograms else ("",)
            more = {"le"} if series is metrics.histograms else set[str]()
            found |= {name + part: labels | more for part in parts}
    return found


async def _heard(place: Path) -> Metrics:
    harness = AttemptHarness(place, PolicySetting.SETTLED)
    await harness.start()
    worker = harness.worker()
    record = await worker.poll(TASK)
    assert record is not None
    identity = worker.harness.identities.new_execution_id()
    attempt = Attempt(worker.harness, harness.task, record, identity, worker.settings)
    metrics = Metrics()
    listener = AttemptMetrics(metrics)
    events = AttemptEvents(attempt, [listener], worker.harness.clock)
    heard = replace(attempt, ports=replace(worker.harness, progress=events))
    await harness.drive(run_attempt(heard, NoLease()))
    waited = {"service": "lakeFS", "waited_seconds": 3.0}
    listener.phase(attempt, Phase.WAITED, waited, 3)
    listener.phase(attempt, Phase.LOST, {"field": "status"}, 1)
    end = {"recorded": Recorded.RECORDED, "code": "PRG-U001"}
    for status, error in (
        (HANDED_BACK, UnavailableError("create branch", "no answer")),
        (AttemptStatus.FAILED, StaleAttemptError("task-1")),
        (AttemptStatus.FAILED, OutcomeUnknownAtDeadlineError("no answer")),
    ):
        listener.phase(attempt, Phase.ENDED, {**end, "status": status, "error": error}, 1)
    BodyTelemetry(metrics).executor(0, "executor started", {})
    # The worker counts its slots once a second; test_worker_telemetry sees these two labels arrive.
    metrics.gauge(module.BUSY_SLOTS, {"task_name": TASK, "perago_instance_id": "pod-7"}, 0)
    return metrics


def test_everything_that_operators_read_of_is_emitted_here(
    emitted: Mapping[str, set[str]],
) -> None:
    made = {str(value) for value in vars(module).values() if str(value).startswith("runtime.")}
    assert {name.replace(".", "_") for name in made} <= set(emitted)


@pytest.mark.parametrize(("asked", "legend"), expressions())
def test_an_expression_asks_for_metrics_and_labels_that_are_emitted(
    emitted: Mapping[str, set[str]], asked: str, legend: str
) -> None:
    names = set(METRIC.findall(asked))
    assert names
    assert names <= set(emitted)
    labels = {label for name in names for label in emitted[name]}
    used = {label for label, _, _ in SELECTOR.findall(asked)}
    used |= {label for found in GROUPED.findall(asked) for label in found.split(", ")}
    assert used <= labels
    assert set(LEGEND.findall(legend)) - {"value"} <= labels


@cache
def values_of_labels() -> Mapping[str, set[str]]:
    source = (ROOT / "src/perago/app/worker/process_body.py").read_text(encoding="utf-8")
    return {
        "status": {*AttemptStatus, HANDED_BACK},
        "recorded": set(Recorded),
        "effect": set(EFFECT_LABELS.values()),
        "verdict": {"current", "stale"},
        "event": set(re.findall(r'"executor ([a-z ]+)"', source)),
    }


@pytest.mark.parametrize(("asked", "_legend"), expressions())
def test_a_value_that_is_asked_for_can_occur(asked: str, _legend: str) -> None:
    for label, _, value in SELECTOR.findall(asked):
        if value != "$task":
            assert set(value.split("|")) <= values_of_labels()[label]


def otlp_name(name: str, kind: str, unit: str) -> str:
    """The name that a collector's exporter for Prometheus makes: `_` for `.`, unit and _total."""
    flat = name.replace(".", "_")
    suffix = {"s": "_seconds", "By": "_bytes", "": ""}[unit]
    flat = flat if flat.endswith(suffix) else flat + suffix
    return flat if kind != "counter" or flat.endswith("_total") else f"{flat}_total"


def test_names_are_the_same_through_a_collector() -> None:
    """The units are those that adapters/observability/otlp.py gives."""
    for value in vars(module).values():
        if not str(value).startswith("runtime."):
            continue
        kind = "counter" if value.endswith("_total") else "other"
        unit = "s" if value.endswith("_seconds") else "By" if value.endswith("_bytes") else ""
        assert otlp_name(value, kind, unit) == value.replace(".", "_")


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_an_alert_leads_to_its_entry(rule: dict[str, Any]) -> None:
    page, _, anchor = rule["annotations"]["runbook"].partition("#")
    assert (ROOT / page).is_file()
    headings = re.findall(r"^### (.+)$", PAGE, re.MULTILINE)
    assert anchor == slug(rule["alert"])
    assert rule["alert"] in headings
    entry = PAGE.partition(f"### {rule['alert']}\n")[2].partition("\n###")[0]
    assert "**Means.**" in entry
    assert "**Do.**" in entry
    assert "```sh" in entry


def test_an_entry_has_its_alert() -> None:
    section = PAGE.partition("## Alerts\n")[2].partition("\n## ")[0]
    headings = re.findall(r"^### (.+)$", section, re.MULTILINE)
    assert headings == [each["alert"] for each in rules()]


def test_a_panel_has_its_place_and_a_title() -> None:
    panels = read("dashboard.json")["panels"]
    places = [(each["gridPos"]["x"], each["gridPos"]["y"]) for each in panels]
    assert len(set(places)) == len(places)
    assert all(each["title"] for each in panels)


def test_the_monitor_asks_the_pods_of_the_deployment() -> None:
    monitor = yaml.safe_load((MONITORING / "pod-monitor.yaml").read_text(encoding="utf-8"))
    worker = (ROOT / "deploy/kubernetes/worker.yaml").read_text(encoding="utf-8")
    deployment = next(iter(yaml.safe_load_all(worker)))
    assert monitor["spec"]["selector"] == deployment["spec"]["selector"]
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert endpoint["port"] in {each["name"] for each in container["ports"]}
    annotations = deployment["spec"]["template"]["metadata"]["annotations"]
    assert endpoint["path"] == annotations["prometheus.io/path"]
