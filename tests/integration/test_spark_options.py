"""Options of Spark that docs/spark.md names are options that Spark has."""

import re
from pathlib import Path
from typing import Any

import pytest
from tests.documented_commands import page_lines

from perago.app.settings.settings import load_settings

pytestmark = pytest.mark.spark

PAGE = Path(__file__).parents[2] / "docs" / "spark.md"
KUBERNETES = "org.apache.spark.deploy.k8s.Config$"  # its options are known once it is loaded


def test_spark_knows_every_option_of_the_page(
    spark_session: Any,  # noqa: ANN401 - a pyspark session
    tmp_path: Path,
) -> None:
    named = set(re.findall(r"PERAGO_SPARK_CONF_\w+", PAGE.read_text(encoding="utf-8")))
    lines = page_lines("docs/spark.md", "PERAGO_SPARK_MASTER=k8s", "PERAGO_SPARK_CONF_")
    given = dict(line.split("=", 1) for line in lines)
    settings = load_settings(cwd=tmp_path, process_env=dict.fromkeys(named, "x") | given)
    options = settings.spark_conf
    jvm = spark_session._jvm  # noqa: SLF001 - there is no other way
    jvm.java.lang.Class.forName(KUBERNETES)
    known = jvm.org.apache.spark.internal.config.ConfigEntry

    assert settings.spark_master == given["PERAGO_SPARK_MASTER"]
    assert "spark.kubernetes.container.image" in options
    assert known.findEntry("spark.kubernetes.no.such.option") is None
    assert [option for option in options if known.findEntry(option) is None] == []
