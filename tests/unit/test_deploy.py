"""The files in deploy/ are what they claim: no root, probes that exist, a grace that is enough."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from perago.app.command_line.program import COMMANDS
from perago.app.settings.layers import variables
from perago.app.settings.settings import Settings
from perago.app.worker.worker import KILL_SECONDS
from perago.domain.attempt import (
    completion_timeout_seconds,
    merge_timeout_seconds,
    shutdown_grace_seconds,
)

DEPLOY = Path(__file__).parents[2] / "deploy"
PROBES = {"startupProbe": "/startupz", "livenessProbe": "/livez", "readinessProbe": "/readyz"}
GRACE_SECONDS = (
    shutdown_grace_seconds(None)
    + merge_timeout_seconds(None)
    + completion_timeout_seconds(None)
    + KILL_SECONDS
)


def known_variables() -> set[str]:
    return {variable.name for _, variable in variables(Settings)}


def manifests() -> dict[str, Mapping[str, Any]]:
    text = (DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8")
    return {each["kind"]: each for each in yaml.safe_load_all(text)}


def pods() -> Iterator[Mapping[str, Any]]:
    found = manifests()
    yield found["Deployment"]["spec"]["template"]["spec"]
    yield found["CronJob"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]


def unit() -> Mapping[str, str]:
    """The directives of the unit; those that may repeat are looked for in the text."""
    text = (DEPLOY / "perago-worker.service").read_text(encoding="utf-8")
    return dict(re.findall(r"^([A-Z]\w+)=(.+)$", text, flags=re.MULTILINE))


def test_every_file_is_looked_at() -> None:
    assert {path.name for path in DEPLOY.iterdir()} == {
        "Dockerfile",
        "compose.yaml",
        "kubernetes.yaml",
        "perago-worker.service",
    }


def test_keys_are_given_by_the_environment_and_never_as_files_that_task_code_could_read() -> None:
    for pod in pods():
        for volume in pod.get("volumes", []):
            assert not {"secret", "projected", "csi"} & set(volume)
        (container,) = pod["containers"]
        assert container["envFrom"] == [{"secretRef": {"name": "perago-keys"}}]
        assert not any(each["name"].endswith("_FILE") for each in container["env"])


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


@pytest.mark.parametrize("pod", list(pods()), ids=["Deployment", "CronJob"])
def test_pods_have_no_root_and_name_what_exists(pod: Mapping[str, Any]) -> None:
    assert pod["securityContext"]["runAsNonRoot"] is True
    (container,) = pod["containers"]
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    given = {each["name"] for each in container["env"]}
    given |= set(manifests()["Secret"]["stringData"])
    assert given <= known_variables()
    for command in [container["command"][1]] if "command" in container else []:
        assert command in {row.name for row in COMMANDS}


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
    grace, period = shutdown_grace_seconds(None), int(GRACE_SECONDS) + 1
    assert f"within the **grace**: {grace:g} s" in deploys
    assert f"`grace_seconds` (without a budget {grace:g})" in deploys
    assert f"`termination_grace_period_seconds` (without a budget {period}:" in deploys
    assert f"The files in `deploy/` give a worker {manifest} s" in deploys
    for file in ("kubernetes.yaml", "perago-worker.service"):
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
    assert 1 < int(service["WatchdogSec"]) < 120
    assert service["KillMode"] == "mixed", "executors are their parent's to stop"
    text = (DEPLOY / "perago-worker.service").read_text(encoding="utf-8")
    assert set(re.findall(r"Environment=(PERAGO_[A-Z_]+)=", text)) <= known_variables()
