"""The files in deploy/ are what they claim: no root, probes that exist, a grace that is enough."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.documented_commands import parse_command

from perago import __version__
from perago.app.settings.settings import VARIABLES, Settings
from perago.app.worker.worker import KILL_SECONDS
from perago.domain.attempt import (
    PATIENCE_SECONDS,
    PublishTimes,
)

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
KUSTOMIZATION: dict[str, Any] = yaml.safe_load(
    (KUBERNETES / "kustomization.yaml").read_text(encoding="utf-8")
)
PROBES = {"startupProbe": "/startupz", "livenessProbe": "/livez", "readinessProbe": "/readyz"}
TIMES = PublishTimes()
GRACE_SECONDS = (
    TIMES.shutdown_grace_seconds
    + TIMES.merge_timeout_seconds
    + TIMES.completion_timeout_seconds
    + KILL_SECONDS
)


def known_variables() -> set[str]:
    return set(VARIABLES)


def in_file(name: str) -> list[Mapping[str, Any]]:
    text = (KUBERNETES / name).read_text(encoding="utf-8")
    return list(yaml.safe_load_all(text))


def manifests() -> dict[str, Mapping[str, Any]]:
    """By kind; the Job of a release is not part of the kustomization."""
    names: Iterable[str] = [*KUSTOMIZATION["resources"], "release.yaml"]
    return {each["kind"]: each for name in names for each in in_file(name)}


def pods() -> Iterator[Mapping[str, Any]]:
    found = manifests()
    yield found["Deployment"]["spec"]["template"]["spec"]
    yield found["CronJob"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    yield found["Job"]["spec"]["template"]["spec"]


def containers(pod: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [*pod.get("initContainers", []), *pod["containers"]]


def settings_given() -> set[str]:
    (generated,) = KUSTOMIZATION["configMapGenerator"]
    assert generated["name"] == "perago-settings"
    return {each.partition("=")[0] for each in generated["literals"]}


def bytes_of(quantity: str) -> float:
    """A quantity of Kubernetes that ends in Mi or Gi."""
    return float(quantity[:-2]) * {"Mi": 2**20, "Gi": 2**30}[quantity[-2:]]


def unit() -> Mapping[str, str]:
    """The directives of the unit; those that may repeat are looked for in the text."""
    text = (DEPLOY / "perago-worker.service").read_text(encoding="utf-8")
    return dict(re.findall(r"^([A-Z]\w+)=(.+)$", text, flags=re.MULTILINE))


def test_every_file_is_looked_at() -> None:
    files = (path for path in DEPLOY.rglob("*") if path.is_file())
    assert {path.relative_to(DEPLOY).as_posix() for path in files} == {
        "Dockerfile",
        "compose.yaml",
        "kubernetes/gc.yaml",
        "kubernetes/keys.yaml",
        "kubernetes/kustomization.yaml",
        "kubernetes/release.yaml",
        "kubernetes/worker.yaml",
        "monitoring/alerts.json",
        "monitoring/dashboard.json",
        "monitoring/kustomization.yaml",
        "monitoring/pod-monitor.yaml",
        "perago-worker.service",
    }


def test_keys_are_given_by_the_environment_and_never_as_files_that_task_code_could_read() -> None:
    for pod in pods():
        for volume in pod.get("volumes", []):
            assert not {"secret", "projected", "csi"} & set(volume)
        assert pod["automountServiceAccountToken"] is False
        for container in containers(pod):
            assert {"secretRef": {"name": "perago-keys"}} in container["envFrom"]
            assert not any(each["name"].endswith("_FILE") for each in container.get("env", []))


def test_the_image_runs_the_worker_as_process_1_and_not_as_root() -> None:
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    instructions = re.findall(r"^([A-Z]+) (.+?)$", text, flags=re.MULTILINE)
    last = dict(instructions)
    assert last["USER"].split(":")[0].isdecimal()
    assert int(last["USER"].split(":")[0]) > 0
    assert last["ENTRYPOINT"] == '["perago", "start"]'
    assert last["STOPSIGNAL"] == "SIGTERM"
    named = set(re.findall(r"\b(PERAGO_[A-Z_]+)=", text))
    assert named
    assert named <= known_variables()


@pytest.mark.parametrize("pod", list(pods()), ids=["Deployment", "CronJob", "Job"])
def test_pods_have_no_root_and_name_what_exists(pod: Mapping[str, Any]) -> None:
    assert pod["securityContext"]["runAsNonRoot"] is True
    volumes = {each["name"] for each in pod["volumes"]}
    for container in containers(pod):
        assert container["image"] == f"perago-worker:{__version__}"
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert {"requests", "limits"} == set(container["resources"])
        # The root file system cannot be written to, so every place that is needed is a volume.
        mounts = {each["mountPath"]: each["name"] for each in container["volumeMounts"]}
        assert set(mounts.values()) <= volumes
        assert "/tmp" in mounts  # noqa: S108 - of the container
        given = {each["name"] for each in container.get("env", [])}
        given |= set(manifests()["Secret"]["stringData"]) | settings_given()
        assert given <= known_variables()
        if "command" in container:
            assert container["command"][0] == "perago"
            parse_command(container["command"][1:])


def test_garbage_collection_looks_through_every_repository() -> None:
    """A name would leave out all the others, and the workers clean their own anyway."""
    (container,) = list(pods())[1]["containers"]
    assert container["command"] == ["perago", "gc"]
    assert manifests()["CronJob"]["spec"]["concurrencyPolicy"] == "Forbid"


def test_disk_and_memory_hold_what_the_defaults_take() -> None:
    """The sums of docs/how-to/size-workers.md, for workspaces of 2 GB that a function doubles."""
    pod = next(pods())
    (container,) = pod["containers"]
    executors = int(container["args"][container["args"].index("-j") + 1])
    page = (ROOT / "docs/how-to/size-workers.md").read_text(encoding="utf-8")
    cache = Settings.of(()).cache_size
    disk = cache + executors * 4e9
    work = next(each for each in pod["volumes"] if each["name"] == "work")
    limit = bytes_of(work["emptyDir"]["sizeLimit"])
    assert limit > disk
    assert bytes_of(container["resources"]["requests"]["ephemeral-storage"]) > limit
    assert f"`-j {executors}`, workspaces of 2 GB that double" in page
    parent, executor = 80e6, 40e6
    assert f"parent 65 to {parent / 1e6:.0f} MB + N x ({executor / 1e6:.0f} MB" in page
    memory = bytes_of(container["resources"]["limits"]["memory"])
    assert memory > parent + executors * (executor + 900e6)
    assert "Four task functions of 900 MB" in (KUBERNETES / "worker.yaml").read_text("utf-8")


def test_a_drained_node_takes_one_worker_at_a_time() -> None:
    budget, deployment = manifests()["PodDisruptionBudget"], manifests()["Deployment"]
    assert budget["spec"]["selector"] == deployment["spec"]["selector"]
    assert budget["spec"]["maxUnavailable"] == 1
    assert deployment["spec"]["replicas"] > 1


def test_the_deployment_asks_the_probes_and_waits_long_enough() -> None:
    pod = next(pods())
    (container,) = pod["containers"]
    assert {name: container[name]["httpGet"]["path"] for name in PROBES} == PROBES
    (port,) = container["ports"]
    assert {container[name]["httpGet"]["port"] for name in PROBES} == {port["name"]}
    image = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    assert f"PERAGO_PROBE_ADDRESS=0.0.0.0:{port['containerPort']}" in image
    assert pod["terminationGracePeriodSeconds"] > GRACE_SECONDS


def test_a_drain_has_one_grace_in_the_code_the_manifests_and_the_docs() -> None:
    manifest = next(pods())["terminationGracePeriodSeconds"]
    assert manifest == int(unit()["TimeoutStopSec"])
    page = (DEPLOY.parent / "docs" / "operations.md").read_text(encoding="utf-8")
    deploys = " ".join(page.partition("## Deploys\n")[2].partition("\n## ")[0].split())
    grace, period = TIMES.shutdown_grace_seconds, int(GRACE_SECONDS) + 1
    assert f"within the **grace**: {grace:g} s" in deploys
    assert f"`grace_seconds` (without a budget {grace:g})" in deploys
    assert f"`termination_grace_period_seconds` (without a budget {period}:" in deploys
    assert f"The files in `deploy/` give a worker {manifest} s" in deploys
    for file in ("kubernetes/worker.yaml", "perago-worker.service"):
        comment = " ".join((DEPLOY / file).read_text(encoding="utf-8").replace("\n# ", " ").split())
        assert f"without a budget {period}: a grace of {grace:g} s, then" in comment, file
    assert "A task function of six hours does not end within a grace." in deploys
    assert "[checkpoints](how-to/checkpoints.md)" in deploys


def test_the_unit_waits_for_readiness_and_long_enough_for_a_drain() -> None:
    service = unit()
    assert service["Type"] == "notify"
    assert service["User"] != "root"
    assert service["ExecStart"].split()[1] == "start"
    assert int(service["TimeoutStopSec"]) > GRACE_SECONDS
    assert int(service["TimeoutStartSec"]) > PATIENCE_SECONDS, "a start may wait for Conductor"
    assert 1 < int(service["WatchdogSec"]) < 120
    assert service["KillMode"] == "mixed", "executors are their parent's to stop"
    text = (DEPLOY / "perago-worker.service").read_text(encoding="utf-8")
    assert set(re.findall(r"Environment=(PERAGO_[A-Z_]+)=", text)) <= known_variables()
