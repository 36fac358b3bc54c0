"""The commands of the runbooks that change something: pasted into a shell, against a real worker."""

import os
import subprocess
from pathlib import Path

from support.worker import until

RUNBOOKS = Path(__file__).parents[3] / "helm" / "monitoring" / "RUNBOOKS.md"


def block_behind(sentence: str) -> str:
    """The first block of commands behind a sentence of the page."""
    return RUNBOOKS.read_text().partition(sentence)[2].partition("```bash\n")[2].partition("```")[0]


def test_dumping_all_tables_again_forgets_the_offsets_and_starts_the_connector_once_more(worker, name):
    worker.create(name)
    worker.wait_for(name, "RUNNING", "RUNNING")
    offsets = f"/connectors/{name}/offsets"
    worker.client.put(f"/connectors/{name}/stop")
    worker.wait_for(name, "STOPPED")
    place = {"partition": {"server": "shop"}, "offset": {"file": "bin.000001", "pos": 4}}
    worker.client.patch(offsets, json={"offsets": [place]}).raise_for_status()
    worker.client.put(f"/connectors/{name}/resume")
    worker.wait_for(name, "RUNNING", "RUNNING")
    assert worker.client.get(offsets).json() == {"offsets": [place]}

    block = block_behind("**To dump all tables again**")
    environment = {**os.environ, "WORKER": worker.url, "CONNECTOR": name}
    pasted = subprocess.run(["bash", "-c", block], env=environment, capture_output=True, text=True, timeout=120, check=False)

    assert pasted.returncode == 0, pasted.stderr
    assert "error_code" not in pasted.stdout
    until(lambda: worker.client.get(offsets).json() == {"offsets": []}, what=lambda: "the offsets to be gone")
    worker.wait_for(name, "RUNNING", "RUNNING")
