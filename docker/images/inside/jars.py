"""Copies the jars that the sink needs besides PySpark's into two folders.

It runs in a builder stage, with the code that also gets them for the tests.

    jars.py DOWNLOADED OWN: those of Maven, whose hashes are locked, and the log store for S3, which is compiled here from its source
"""

import shutil
import sys
from pathlib import Path

from stack.spark import image_jars, log_store_jar

for folder, found in zip(map(Path, sys.argv[1:]), (image_jars(), [log_store_jar()]), strict=True):
    folder.mkdir(parents=True)
    for jar in found:
        shutil.copyfile(jar, folder / jar.name)
