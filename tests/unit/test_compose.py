"""deploy/compose.yaml runs what the tests run: each image, command, option and variable.

No Docker engine is at hand where Perago is built, so what can be compared is compared.
"""

import ast
from pathlib import Path
from typing import Any

import yaml

from perago import __version__
from perago.app.settings.settings import VARIABLES
from perago_servers.conductor import WORKERS, as_text, store
from perago_servers.lakefs import own_options
from perago_servers.versions import CONDUCTOR, LAKEFS

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
LOCAL = Path("/tmp/lakefs")  # noqa: S108 - of the container
# What `perago_servers` makes for each run: an address, keys, and the kind of block store.
OF_A_RUN = {
    "listen_address",
    "blockstore.type",
    "installation.access_key_id",
    "installation.secret_access_key",
}


def test_the_images_are_the_versions_that_the_tests_run_on() -> None:
    assert {name: each["image"] for name, each in SERVICES.items()} == {
        "lakefs": f"treeverse/lakefs:{LAKEFS}",
        "conductor": f"conductoross/conductor:{CONDUCTOR}",
        "worker": f"perago-worker:{__version__}",
        "first-workflow": f"perago-worker:{__version__}",
    }


def test_lakefs_gets_the_options_of_the_tests() -> None:
    given = SERVICES["lakefs"]["environment"]
    names = {f"LAKEFS_{name.upper().replace('.', '_')}": name for name in given_options()}
    assert set(given) == set(names)
    secrets = [name for name in given if "SECRET_KEY" in name]
    wanted = {each: as_text(value) for each, value in own_options(LOCAL).items()}
    for variable, name in names.items():
        if variable not in secrets and name in wanted:
            assert given[variable] == wanted[name], variable
    assert given["LAKEFS_BLOCKSTORE_TYPE"] == "local"
    assert SERVICES["lakefs"]["command"] == ["run"]


def given_options() -> set[str]:
    return {*own_options(LOCAL), *OF_A_RUN}


def test_conductor_gets_the_properties_of_the_tests() -> None:
    (config,) = SERVICES["conductor"]["configs"]
    content: str = COMPOSE["configs"][config["source"]]["content"]
    wanted = {**store(Path("/tmp")), **WORKERS}  # noqa: S108 - of the container
    assert content.splitlines() == [f"{name}={as_text(value)}" for name, value in wanted.items()]
    file = SERVICES["conductor"]["environment"]["CONFIG_PROP"]
    assert config["target"] == f"/app/config/{file}"


def test_worker_and_workflow_have_settings_that_exist_and_the_key_of_lakefs() -> None:
    known = set(VARIABLES)
    lakefs = SERVICES["lakefs"]["environment"]
    for name in ("worker", "first-workflow"):
        given = SERVICES[name]["environment"]
        assert set(given) <= known
        key = given["LAKECTL_CREDENTIALS_ACCESS_KEY_ID"]
        assert key == lakefs["LAKEFS_INSTALLATION_ACCESS_KEY_ID"]
        secret = given["LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY"]
        assert secret == lakefs["LAKEFS_INSTALLATION_SECRET_ACCESS_KEY"]


def test_only_this_machine_reaches_the_servers() -> None:
    ports = [port for each in SERVICES.values() for port in each.get("ports", [])]
    assert ports == ["127.0.0.1:8000:8000", "127.0.0.1:8080:8080"]


def test_worker_and_workflow_run_files_that_are_there() -> None:
    (mounted,) = {
        each for name in ("worker", "first-workflow") for each in SERVICES[name]["volumes"]
    }
    folder = (ROOT / "deploy" / mounted.partition(":")[0]).resolve()
    module = SERVICES["worker"]["command"][0]
    script = SERVICES["first-workflow"]["entrypoint"][-1]
    assert (folder / f"{module}.py").is_file()
    ast.parse((folder / script).read_text(encoding="utf-8"))
    build = SERVICES["worker"]["build"]
    assert (ROOT / "deploy" / build["context"] / build["dockerfile"]).is_file()
