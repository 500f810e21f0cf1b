"""The small set of jars with which Spark reads and writes s3a paths (19 MB).

hadoop-aws asks for the AWS bundle of 686 MB; three modules of the same SDK do.
"""

from pathlib import Path

from perago_servers import versions
from perago_servers.cache import build_log, make_once
from perago_servers.ivy import Exclusion, Library, retrieve

AWS = "software.amazon.awssdk"
KEY = f"spark-jars-{versions.PYSPARK}-{versions.AWS_SDK}"


def spark_jars() -> Path:
    """Return the directory of jars for `spark.jars`."""
    return make_once(KEY, _retrieve)


def _retrieve(directory: Path) -> None:
    modules = ("s3", "s3-transfer-manager", "sts")
    retrieve(
        [
            Library(group="org.apache.hadoop", name="hadoop-aws", version=versions.HADOOP),
            Library(
                group="org.apache.spark",
                name="spark-hadoop-cloud_2.13",
                version=versions.SPARK_CLOUD,
                is_alone=True,
            ),
            *(Library(group=AWS, name=name, version=versions.AWS_SDK) for name in modules),
        ],
        directory,
        log=build_log(KEY),
        exclusions=[Exclusion(AWS, "bundle")],
    )
