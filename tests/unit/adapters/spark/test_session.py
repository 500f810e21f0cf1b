"""What keeps a session from starting is found before a JVM is; the home of a `local-cluster`."""

import sys
from pathlib import Path

import pytest

from perago.adapters.spark.jars import java_version
from perago.adapters.spark.session import (
    SparkConfiguration,
    check_master,
    process_session,
    scratch_home,
    start_session,
)
from perago.domain.errors import SparkEnvironmentError, SparkSessionError


def a_java(home: Path, version: str) -> None:
    """A directory that says it is a Java; nobody may start it."""
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").touch()
    (home / "release").write_text(f'JAVA_VERSION="{version}"\n')


@pytest.fixture
def java_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where JAVA_HOME points."""
    home = tmp_path / "java"
    monkeypatch.setenv("JAVA_HOME", str(home))
    return home


@pytest.mark.parametrize(("version", "major"), [("17.0.15", 17), ("25", 25), ("1.8.0_402", 8)])
def test_the_version_is_read_off_the_release(java_home: Path, version: str, major: int) -> None:
    a_java(java_home, version)
    assert java_version() == major


def test_no_java(java_home: Path) -> None:
    assert not java_home.exists()
    with pytest.raises(SparkEnvironmentError, match="found no Java; install a JDK"):
        start_session(SparkConfiguration(master="local[1]"), needs_s3a=False)


def test_missing_jars(java_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_java(java_home, "17.0.1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    configuration = SparkConfiguration(master="local[1]")
    with pytest.raises(SparkEnvironmentError, match="no hadoop-aws; run `perago spark jars`"):
        start_session(configuration, needs_s3a=True)


def test_jars_of_another_hadoop(
    java_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_java(java_home, "17.0.1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    options = {"spark.jars": "/opt/jars/hadoop-aws-3.3.4.jar"}
    configuration = SparkConfiguration(options=options)
    with pytest.raises(SparkEnvironmentError, match=r"found hadoop-aws 3\.3\.4"):
        start_session(configuration, needs_s3a=True)


@pytest.mark.parametrize("master", ["local[2]", "local-cluster[2,1,1024]", "k8s://host", "yarn"])
def test_masters_that_spark_itself_asks(master: str) -> None:
    check_master(master)


def test_a_master_without_a_port_is_unreachable() -> None:
    with pytest.raises(SparkSessionError, match=r"spark://host gave no .*PERAGO_SPARK_MASTER"):
        check_master("spark://host")


def test_without_pyspark_the_way_to_get_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)  # as if it were not installed
    with pytest.raises(SparkEnvironmentError, match=r"pip install 'perago\[spark\]'") as refused:
        process_session(SparkConfiguration(), needs_s3a=False)
    assert refused.value.code == "PRG-K001"


def test_all_is_there_but_what_executors_wrote_before(tmp_path: Path) -> None:
    for folder in ("bin", "jars", "work"):
        (tmp_path / folder).mkdir()
    (tmp_path / "jars" / "spark.jar").touch()

    home = scratch_home(tmp_path)

    assert {each.name for each in home.iterdir()} == {"bin", "jars"}
    assert (home / "jars" / "spark.jar").exists()
    assert home.parent != tmp_path
