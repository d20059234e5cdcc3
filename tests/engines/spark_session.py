"""One small local Spark session for the tests, or the reason why there is none."""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import sys
import tempfile
import warnings
from typing import Any

import pytest

JAVA_OPTIONS = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    # tables of the tests have a few rows: compiling a plan takes longer than running it
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    # a JVM of two minutes gains nothing from its slow compiler, or from several collectors
    # nor from proving again the byte code of a release of Spark
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    # the same Java answers clients of Spark Connect, on a free port of the loopback
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
}


def missing() -> str | None:
    """Return why Spark cannot run here, or None."""
    if importlib.util.find_spec("pyspark") is None:
        return "PySpark is not installed (pip install 'dprelease[spark]')"
    return None if shutil.which("java") else "no Java on the PATH"


needs_spark = pytest.mark.skipif(missing() is not None, reason=str(missing()))


@functools.cache
def session() -> Any:
    """Return the session of this process; it ends with it.

    PySpark warns here that pandas 3 is new to it. It asks once per process whether it can do
    without its `connect` part, and takes a warning that was raised as an error for a "no", which
    then ends every later import of Great Expectations in a process without a main file, such as
    a worker of pytest-xdist.
    """
    from pyspark.sql import SparkSession

    # Rows of Python lists are read by a worker, else by whatever `python3` is on the PATH
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[1]").appName("dprelease tests")
    # Spark makes its folder of tables in the working folder otherwise
    builder = builder.config(
        "spark.sql.warehouse.dir", tempfile.gettempdir() + "/dprelease-spark-tests"
    )
    for name, value in _SETTINGS.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support", FutureWarning)
        return builder.getOrCreate()


def connect_port() -> int:
    """Return the port on which the session's Java answers clients of Spark Connect."""
    package = session()._jvm.org.apache.spark.sql.connect.service
    return int(getattr(getattr(package, "SparkConnectService$"), "MODULE$").localPort())
