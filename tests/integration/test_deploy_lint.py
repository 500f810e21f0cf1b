"""The manifests and alerts as programs of others read them: Kubernetes' schemas, PromQL's grammar.

Both come from the package index, once per user. There is no cluster where Perago is built.
"""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.integration.document_blocks import BLOCK

from perago_servers.cache import private_environment

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
SCHEMAS, GRAMMAR = "kubernetes-validate==1.37.0", "promql-parser==0.11.0"
OLDEST, NEWEST = "1.29", "1.37"  # of Kubernetes; every field that is used is in both
PARSE = """
import json, sys
import promql_parser
for text in json.load(sys.stdin):
    promql_parser.parse(text)
"""


def validated(version: str, file: Path) -> subprocess.CompletedProcess[str]:
    program = private_environment(SCHEMAS) / "bin" / "kubernetes-validate"
    command = [str(program), "--strict", "-k", version, str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("name", ["worker", "gc", "keys", "release"])
def test_a_manifest_fits_the_schemas_of_kubernetes(version: str, name: str) -> None:
    done = validated(version, DEPLOY / "kubernetes" / f"{name}.yaml")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_field_that_is_misspelt_would_be_refused(tmp_path: Path) -> None:
    text = (DEPLOY / "kubernetes/worker.yaml").read_text(encoding="utf-8")
    wrong = tmp_path / "worker.yaml"
    wrong.write_text(text.replace("maxUnavailable", "maxUnavailble"), encoding="utf-8")
    assert validated(NEWEST, wrong).returncode != 0


def parsed(expressions: list[str]) -> subprocess.CompletedProcess[str]:
    python = private_environment(GRAMMAR) / "bin" / "python"
    return subprocess.run(
        [str(python), "-c", PARSE],
        input=json.dumps(expressions),
        capture_output=True,
        text=True,
        check=False,
    )


def expressions() -> list[str]:
    """Grafana's variables become what Grafana puts there."""
    (group,) = json.loads((DEPLOY / "monitoring/alerts.json").read_text("utf-8"))["spec"]["groups"]
    asked = [each["expr"] for each in group["rules"]]
    panels = json.loads((DEPLOY / "monitoring/dashboard.json").read_text("utf-8"))["panels"]
    asked += [target["expr"] for panel in panels for target in panel["targets"]]
    return [each.replace("$__rate_interval", "5m").replace("$task", ".*") for each in asked]


def test_every_expression_is_promql() -> None:
    done = parsed(expressions())
    assert done.returncode == 0, done.stderr


def test_an_expression_with_a_slip_would_be_refused() -> None:
    assert parsed([*expressions(), "sum by (task_name rate(x[5m]))"]).returncode != 0


def test_the_kustomization_of_the_page_changes_what_is_there() -> None:
    """Its images, settings and patches name things of the base, and the base names its files."""
    page = (ROOT / "docs/how-to/kubernetes.md").read_text(encoding="utf-8")
    indented = re.sub(r"^   ", "", page, flags=re.MULTILINE)
    (text,) = [body for language, _, body in BLOCK.findall(indented) if language == "yaml"]
    own: dict[str, Any] = yaml.safe_load(text)
    base = yaml.safe_load((DEPLOY / "kubernetes/kustomization.yaml").read_text(encoding="utf-8"))
    assert all((DEPLOY / "kubernetes" / name).is_file() for name in base["resources"])
    assert own["resources"] == ["../perago/deploy/kubernetes"]
    found = [each for name in base["resources"] for each in manifests(name)]
    (generated,), (merged,) = base["configMapGenerator"], own["configMapGenerator"]
    assert (merged["name"], merged["behavior"]) == (generated["name"], "merge")
    names = {each.partition("=")[0] for each in generated["literals"]}
    assert {each.partition("=")[0] for each in merged["literals"]} <= names
    for patch in own["patches"]:
        wanted = patch["target"]
        (target,) = [
            each
            for each in found
            if (each["kind"], each["metadata"]["name"]) == (wanted["kind"], wanted["name"])
        ]
        for operation in yaml.safe_load(patch["patch"]):
            assert operation["op"] == "replace"
            at_path(target, operation["path"])
    images = {each["name"] for each in own["images"]}
    assert all(
        container["image"].partition(":")[0] in images
        for each in found
        if each["kind"] == "Deployment"
        for container in each["spec"]["template"]["spec"]["containers"]
    )


def manifests(name: str) -> list[dict[str, Any]]:
    text = (DEPLOY / "kubernetes" / name).read_text(encoding="utf-8")
    return list(yaml.safe_load_all(text))


def at_path(document: Any, path: str) -> None:  # noqa: ANN401 - of any manifest
    """Raise KeyError or IndexError where nothing is: a patch replaces nothing that is missing."""
    found = document
    for step in path.strip("/").split("/"):
        found = found[int(step)] if step.isdecimal() else found[step]
