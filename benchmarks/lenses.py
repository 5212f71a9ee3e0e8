"""Time the quality lenses beside the straightforward forms that other tools use, in one run.

    python benchmarks/lenses.py

Prints a markdown table of milliseconds (best of several, interleaved) and ratios. All compute in float64 on
random states of the size of a small model; both forms of a line give the same number, which is checked.
"""

import math
import time
from collections.abc import Callable

import torch
from torch import Tensor

from readout.lenses import curvature_rad_per_text, lidar, matrix_entropy, prompt_entropy_per_text, unit_rows
from readout.lenses.preprocess import center

REPEATS = 3


def entropy_by_eigenvectors(z: Tensor) -> Tensor:
    """Rényi entropy from a full eigendecomposition of the n x n Gram matrix, as in representation-itl."""
    values = torch.linalg.eigh(z @ z.T)[0]
    p = values[values > 0] / values[values > 0].sum()
    return -(p * p.log()).sum()


def prompt_entropies_one_by_one(states: Tensor) -> Tensor:
    bound = math.log(states.shape[1] - 1)
    return torch.stack([entropy_by_eigenvectors(unit_rows(center(z))) / bound for z in states])


def curvatures_one_by_one(states: Tensor) -> Tensor:
    """A Python loop over angles, each brought back with .item()."""

    def one(z: Tensor) -> float:
        angles = []
        for k in range(len(z) - 2):
            v, w = z[k + 1] - z[k], z[k + 2] - z[k + 1]
            angles.append(torch.arccos((v @ w / (v.norm() * w.norm())).clamp(-1, 1)).item())
        return sum(angles) / len(angles)

    return torch.tensor([one(z) for z in states], dtype=torch.float64)


def lidar_by_outer_products(views: Tensor, delta: float = 1e-4) -> Tensor:
    """Scatter matrices summed over a double loop, and the inverse root of the within-text one."""
    n, q, dim = views.shape
    means, mean = views.mean(1), views.mean((0, 1))
    between, within = (torch.zeros(dim, dim, dtype=torch.float64) for _ in range(2))
    for i in range(n):
        between += torch.outer(means[i] - mean, means[i] - mean) / n
        for j in range(q):
            within += torch.outer(views[i, j] - means[i], views[i, j] - means[i]) / (n * q)
    values, vectors = torch.linalg.eigh(within + delta * torch.eye(dim))
    root = vectors @ torch.diag(values**-0.5) @ vectors.T
    shares = torch.linalg.eigh(root @ between @ root)[0].clamp(min=0)
    return torch.special.entr(shares / shares.sum()).sum()


def cases() -> list[tuple[str, Callable[[], Tensor], Callable[[], Tensor]]]:
    """Each line of the table: what is measured, ours, the straightforward form."""
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randn(32, 128, 576, dtype=torch.float64, generator=generator)
    mask = torch.ones(32, 128, dtype=torch.bool)
    pooled = torch.randn(1024, 384, dtype=torch.float64, generator=generator)
    views = torch.randn(100, 16, 384, dtype=torch.float64, generator=generator)
    return [
        (
            "prompt entropy, 32 texts of 128 tokens, d 576",
            lambda: prompt_entropy_per_text(tokens, mask).values,
            lambda: prompt_entropies_one_by_one(tokens),
        ),
        (
            "curvature, 32 texts of 128 tokens, d 576",
            lambda: curvature_rad_per_text(tokens, mask).values,
            lambda: curvatures_one_by_one(tokens),
        ),
        (
            "entropy of 1024 pooled vectors, d 384",
            lambda: matrix_entropy(pooled),
            lambda: entropy_by_eigenvectors(pooled),
        ),
        (
            "LiDAR, 100 texts with 16 views, d 384",
            lambda: lidar(views),
            lambda: lidar_by_outer_products(views),
        ),
    ]


def milliseconds(compute: Callable[[], Tensor]) -> float:
    start = time.perf_counter()
    compute()
    return 1e3 * (time.perf_counter() - start)


def main() -> None:
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, best of {REPEATS}\n")
    print("| | readout, ms | straightforward, ms | ratio |")
    print("|---|---:|---:|---:|")
    for name, ours, theirs in cases():
        torch.testing.assert_close(ours(), theirs(), atol=1e-6, rtol=1e-6)
        times = [(milliseconds(ours), milliseconds(theirs)) for _ in range(REPEATS)]
        fast, slow = (min(column) for column in zip(*times, strict=True))
        print(f"| {name} | {fast:.1f} | {slow:.1f} | {slow / fast:.1f} |")


if __name__ == "__main__":
    main()
