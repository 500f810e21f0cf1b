"""The home that a `local-cluster` is given: all of pyspark, and nothing is written beside it."""

from pathlib import Path

from perago.adapters.spark.session import scratch_home


def test_all_is_there_but_what_executors_wrote_before(tmp_path: Path) -> None:
    for folder in ("bin", "jars", "work"):
        (tmp_path / folder).mkdir()
    (tmp_path / "jars" / "spark.jar").touch()

    home = scratch_home(tmp_path)

    assert {each.name for each in home.iterdir()} == {"bin", "jars"}
    assert (home / "jars" / "spark.jar").exists()
    assert home.parent != tmp_path
