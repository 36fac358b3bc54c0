"""No process of the worker leaves a core dump, however it is started."""

import subprocess
import sys

SCRIPT = """
import resource, sys
limits = []
resource.setrlimit = lambda *limit: limits.append(limit)
sys.argv = ["dblog", "--version"]
from dblog.cli import main
try:
    main()
except SystemExit:
    pass
print((resource.RLIMIT_CORE, (0, 0)) in limits)
"""


def test_the_command_that_is_installed_leaves_no_core():  # number 30 of the worker's safety
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "True"
