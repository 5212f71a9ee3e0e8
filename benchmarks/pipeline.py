"""How long a stranger waits: set-up, tiny, laptop and no-op, measured in a fresh clone of HEAD.

    python benchmarks/pipeline.py [FOLDER]     # writes benchmarks/pipeline.json

Wall seconds and peak resident memory of the largest process of each step. The README quotes this record.
"""

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from readout.report.readme import STAGES

ROOT = Path(__file__).resolve().parents[1]
STEPS = {
    "setup": ["make", "setup"],
    "tiny": ["make", "repro", f"STAGE={' '.join(f'{stage}@tiny' for stage in STAGES)}"],
    **{stage: ["make", "repro", f"STAGE={stage}@laptop"] for stage in STAGES},
    "no-op": ["make", "repro"],
}


def measure(command: list[str], folder: Path) -> dict[str, float]:
    """Wall seconds and the peak memory (GB) of the largest process that `command` started."""
    code = (
        "import resource, subprocess, sys; r = subprocess.run(sys.argv[1:]).returncode;"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr); sys.exit(r)"
    )
    start = time.monotonic()
    ran = subprocess.run([sys.executable, "-c", code, *command], cwd=folder, capture_output=True, text=True)
    seconds = time.monotonic() - start
    if ran.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{ran.stdout[-2000:]}\n{ran.stderr[-2000:]}")
    return {"seconds": round(seconds, 1), "peak_gb": round(int(ran.stderr.split()[-1]) / 1024**2, 2)}


def measure_clone(clone: Path) -> dict:
    """Every step in a fresh clone of HEAD at `clone`."""
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    record: dict = {name: measure(command, clone) for name, command in STEPS.items()}
    size = subprocess.run(
        ["du", "-sm", ".venv", "assets", "results"], cwd=clone, capture_output=True, text=True, check=True
    )
    sizes = (line.split() for line in size.stdout.splitlines())
    record["disk_gb"] = {folder: round(int(mb) / 1024, 1) for mb, folder in sizes}
    return record | {"machine": {"cores": len(os.sched_getaffinity(0)), "arch": platform.machine()}}


def main() -> None:
    """Measure in the folder named on the command line, which is kept, or in a temporary one."""
    with tempfile.TemporaryDirectory() as temporary:
        record = measure_clone(Path(sys.argv[1] if len(sys.argv) > 1 else temporary) / "readout")
    (ROOT / "benchmarks" / "pipeline.json").write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
