"""What a finished run was made of, written beside its results: code, parameters, versions, time, memory."""

import platform
import resource
import subprocess
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

_PACKAGES = ("torch", "transformers", "numpy")


def describe(started: datetime, project: Path) -> dict[str, Any]:
    """The part of a record that is known once the kernel has ended; it names no host and no path.

    `peak_memory_bytes` is the largest resident size of any process the runner waited for.
    """
    ended = datetime.now(UTC)
    return {
        "git_commit": git_commit(project),
        "versions": versions(),
        "started": started.isoformat(timespec="seconds"),
        "ended": ended.isoformat(timespec="seconds"),
        "wall_seconds": round((ended - started).total_seconds(), 2),
        "peak_memory_bytes": peak_memory_bytes(),
    }


def git_commit(project: Path) -> str | None:
    """The project's commit, none outside git or before the first commit."""
    command = ["git", "-C", str(project), "rev-parse", "--verify", "--quiet", "HEAD"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return answer.stdout.strip() if answer.returncode == 0 else None


def versions() -> dict[str, str | None]:
    """Python's release and those of the packages that numbers depend on most."""
    return {"python": platform.python_version(), **{name: _version(name) for name in _PACKAGES}}


def peak_memory_bytes() -> int:
    """Of finished child processes; Linux counts it in kibibytes and macOS in bytes."""
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
