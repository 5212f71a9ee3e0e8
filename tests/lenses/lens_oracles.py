"""Slow forms in plain numpy, written from the formulas and not from the library."""

import numpy as np


def eigen_shares(k):
    values = np.linalg.eigh(k)[0]
    values = values[values > 1e-12 * values.max()]
    return values / values.sum()


def renyi(p, alpha):
    if alpha == 1:
        return float(-(p * np.log(p)).sum())
    return float(-np.log(p.max())) if alpha == np.inf else float(np.log((p**alpha).sum()) / (1 - alpha))


def normalize(z):
    z = z - z.mean(0)
    return z / np.linalg.norm(z, axis=1, keepdims=True)


def prompt_entropy(z, alpha=1.0):
    u = normalize(z)
    return renyi(eigen_shares(u @ u.T), alpha) / np.log(min(len(z) - 1, z.shape[1]))


def curvature(z, fold=False):
    """Mean angle of successive steps; with `fold`, of their absolute cosines, zero steps counted as 0."""
    angles = []
    for k in range(len(z) - 2):
        v, w = z[k + 1] - z[k], z[k + 2] - z[k + 1]
        size = np.linalg.norm(v) * np.linalg.norm(w)
        if size > 0:
            cosine = v @ w / size
            angles.append(np.arccos(np.clip(abs(cosine) if fold else cosine, -1, 1)))
        elif fold:
            angles.append(0.0)
    return float(np.mean(angles))


def clamped_entropy(u, alpha=1.0):
    n, d = u.shape
    k = np.maximum(u.T @ u if n > d else u @ u.T, 0)
    values = np.linalg.eigvalsh(k)
    values = values[values > 0]
    return renyi(values / values.sum(), alpha) / np.log(min(n, d))


def in_batches(x, size):
    return np.concatenate([normalize(x[i : i + size]) for i in range(0, len(x), size)])


def lidar(views, delta, dtype=np.float64):
    """Sums outer products one by one, in `dtype`, and takes the root of the within scatter."""
    n, q, d = views.shape
    means = views.mean(1)
    between, within = np.zeros((d, d), dtype), np.zeros((d, d), dtype)
    for i in range(n):
        between += np.outer(means[i] - means.mean(0), means[i] - means.mean(0)).astype(dtype)
        for j in range(q):
            within += np.outer(views[i, j] - means[i], views[i, j] - means[i]).astype(dtype)
    values, vectors = np.linalg.eigh(within / dtype(n * q) + dtype(delta) * np.eye(d, dtype=dtype))
    root = vectors @ np.diag(values**-0.5) @ vectors.T
    eigenvalues = np.linalg.eigvalsh(root @ (between / dtype(n)) @ root)
    eigenvalues = eigenvalues[eigenvalues > 0].astype(np.float64)
    return renyi(eigenvalues / eigenvalues.sum(), 1)
