"""Copies the jars that Spark needs beside its own into the folder given; runs in a builder stage, with the code by which the tests get them too."""

import shutil
import sys
from pathlib import Path

from stack.spark import spark_jars

target = Path(sys.argv[1])
target.mkdir(parents=True)
for jar in spark_jars():
    shutil.copyfile(jar, target / jar.name)
