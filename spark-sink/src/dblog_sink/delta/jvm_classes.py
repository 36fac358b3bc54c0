"""Caches JVM classes that every column and every batch needs.

At each access to a name, Py4J asks the JVM whether it is a class or a package. For PySpark's short
names (``functions``) and for packages, the JVM searches all jars: a tenth of the CPU of a small
batch. The classes are kept as Python attributes, which Py4J checks first.
"""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import JavaClass, JavaMember

_OF_PYSPARK = (
    "PythonErrorUtils",
    "functions",
    "PythonUtils",
    "PythonSQLUtils",
    "org.apache.spark.sql.functions",
    "org.apache.spark.sql.classic.SparkSession",
    "org.apache.spark.sql.classic.SparkSession$",
    "org.apache.spark.sql.catalyst.trees.PySparkCurrentOrigin",
    "org.apache.spark.SparkThrowableHelper",
    "org.apache.spark.sql.internal.SQLConf",
    "org.apache.spark.storage.StorageLevel",
    "org.apache.spark.util.Utils",
)
"""Names of classes as PySpark writes them."""
_OWN = (
    "io.delta.tables.DeltaTable",
    "java.lang.Class",
    "java.lang.Thread",
    "org.apache.hadoop.fs.Path",
    "org.apache.spark.sql.catalyst.FunctionIdentifier",
    "org.apache.spark.sql.catalyst.expressions.Literal",
    "org.apache.spark.sql.catalyst.optimizer.ConstantFolding",
    "org.apache.spark.sql.classic.ExpressionUtils",
    "org.apache.spark.sql.classic.SparkSession",
    "org.apache.spark.sql.delta.DeltaHistoryManager",
    "org.apache.spark.sql.delta.DeltaLog",
    "org.apache.spark.sql.delta.DeltaOperations$SetTableProperties",
    "org.apache.spark.sql.delta.TransactionExecutionObserver$",
    "org.apache.spark.sql.delta.actions.Metadata",
    "org.apache.spark.sql.delta.util.FileNames",
    "org.apache.spark.sql.execution.metric.SQLMetrics",
    "org.apache.spark.sql.types.DataType",
    "org.apache.spark.util.Utils",
    "py4j.reflection.TypeUtil",
    "scala.Option",
    "scala.collection.immutable.ArraySeq",
)
"""Classes that this package, PySpark, Py4J and Delta reach by their packages. PySpark uses
``TypeUtil`` thirteen times for each JVM error.
"""


class _Class(JavaClass):  # type: ignore[misc]  # py4j has no types
    """A JVM class that also caches its static methods and the instance of a Scala object."""

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if isinstance(found, JavaMember) or name == "MODULE$":
            self.__dict__[name] = found
        return found


def remember_classes(jvm: Any) -> None:
    """Cache these classes in ``jvm``, the view that all sessions of the process share.

    Py4J takes a class that this Spark or Delta lacks for a package, and so does the cache; using it
    raises Py4J's own error.
    """
    for name in _OF_PYSPARK:
        vars(jvm)[name] = _kept(getattr(jvm, name))
    for name in _OWN:
        found = jvm
        for part in name.split("."):
            found = vars(found).setdefault(part, _kept(getattr(found, part)))


def _kept(found: Any) -> Any:
    """Return a class as a caching class; a package unchanged."""
    return _Class(found._fqn, found._gateway_client) if type(found) is JavaClass else found  # noqa: SLF001  no other way to make one
