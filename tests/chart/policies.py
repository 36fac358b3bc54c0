"""`make chart-lint`: the chart's objects under checkov, which knows a hundred policies of Kubernetes. Exit status 0 when only what stands below is broken.

checkov is in an environment of its own, made at the first run: it brings along many packages, some of other versions than the project's.
"""

import subprocess
import sys
from pathlib import Path

sys.path += [str(Path(__file__).parents[2] / part) for part in ("docker", "tests")]

from chart.rendered import ROOT, VALUES, text
from stack.commands import run
from stack.environment import BUILD

CHECKOV = "checkov==3.3.30"
ALLOWED = {
    "CKV_K8S_11": "no CPU limit: a throttled leader would miss its lease",
    "CKV_K8S_13": "memory limits are set; checkov takes none for a limit of its own unit",
    "CKV_K8S_15": "IfNotPresent: tags of releases do not move, and a digest can be given",
    "CKV_K8S_43": "a digest is of a registry; the values take one",
    "CKV_K8S_38": "a driver of executors needs its token",
    "CKV2_K8S_6": "a NetworkPolicy is on by default; one file of values turns it off",
    "CKV_K8S_8": "the test pod, jobs and pods that sleep have no probes",
    "CKV_K8S_9": "the test pod, jobs and pods that sleep have no probes",
    "CKV_K8S_35": "secrets are files; the other use is the user's own envFrom",
}
"""Policies that are not kept, with the reason."""


def main() -> int:
    environment = BUILD / "checkov"
    python = environment / "bin" / "python"
    stamp = environment / CHECKOV
    if not stamp.exists():
        run([sys.executable, "-m", "venv", "--clear", str(environment)], what="Making an environment for checkov")
        run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", CHECKOV], what=f"Installing {CHECKOV}")
        stamp.touch()
    folder = BUILD / "chart"
    folder.mkdir(parents=True, exist_ok=True)
    for file in VALUES:
        name = file.name.removesuffix("-values.yaml")
        # What users add is theirs: only what the chart makes itself is looked at.
        (folder / f"{name}.yaml").write_text("\n---\n".join(part for part in text(name).split("\n---\n") if "rel-more" not in part))
    arguments = [
        "-d",
        str(folder),
        "--framework",
        "kubernetes",
        "--compact",
        "--quiet",
        "--skip-download",
        "--skip-check",
        ",".join(ALLOWED),
    ]
    print(f"checkov over {len(VALUES)} files of values, {len(ALLOWED)} policies allowed to be broken")
    return subprocess.run([str(environment / "bin" / "checkov"), *arguments], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
