"""HSIC, the dependence of two feature sets over the same texts: exact from Gram matrices, features or a stream.

With K = XXᵀ and L = YYᵀ, K~ and L~ their copies with a zero diagonal, the debiased estimate is
(Song et al. 2012, JMLR 13:1393, eq. 5)

    HSIC_u = [ tr(K~L~) + (1ᵀK~1)(1ᵀL~1) / ((n-1)(n-2)) - 2 (1ᵀK~L~1) / (n-2) ] / (n (n-3)).

It does not change when `a_i + a_j + c` is added to K, so it does not change when a vector is taken off every
row of X. Everything here centres first: else near-identical states lose their digits in the three terms.
"""

from jaxtyping import Float
from torch import Tensor

from readout.errors import ParameterError, TooFewError
from readout.lenses.preprocess import as_states, center

MINIMUM_TEXTS = 4


def as_pair(x: Tensor, y: Tensor, names: tuple[str, str] = ("x", "y")) -> tuple[Tensor, Tensor]:
    """Two feature sets in float64 over the same texts, at least four.

    Raises `ParameterError`, `TooFewError`, `NonFiniteError`.
    """
    x, y = as_states(names[0], x, ndim=2), as_states(names[1], y, ndim=2)
    if len(x) != len(y):
        raise ParameterError(
            f"{names[0]} has {len(x)} rows and {names[1]} {len(y)}; one row per text in both is needed"
        )
    check_count(names[0], len(x))
    return x, y


def check_count(name: str, n: int) -> None:
    """Refuse fewer texts than the four that the debiased estimate needs. Raises `TooFewError`."""
    if n < MINIMUM_TEXTS:
        raise TooFewError(f"{name} has {n} texts; at least {MINIMUM_TEXTS} are needed")


def center_fully(z: Float[Tensor, "*batch text dim"]) -> Float[Tensor, "*batch text dim"]:
    """Features whose rows sum to 0 to the last digits.

    The mean of large and nearly equal numbers is itself rounded, by more than the closed form below bears; a
    second pass takes off what is left. Raises as `center`.
    """
    z = center(z)
    return z - z.mean(-2, keepdim=True)


def u_center(gram: Float[Tensor, "*batch text text"]) -> Float[Tensor, "*batch text text"]:
    """The U-centred Gram matrix: zero diagonal, and every row sums to 0.

    `K_ij - r_i/(n-2) - r_j/(n-2) + s/((n-1)(n-2))` off the diagonal, r and s the row sums and the sum of K~
    (Székely and Rizzo 2014, Annals of Statistics 42:2382). `HSIC_u = sum(U(K) * U(L)) / (n(n-3))`, and either
    U may be left out. A new tensor, O(n²). Raises `TooFewError` for n < 4.

    >>> import torch
    >>> u_center(torch.outer(*2 * [torch.tensor([0.0, 0.0, 1.0, 1.0])])).round(decimals=4)
    tensor([[ 0.0000,  0.3333, -0.1667, -0.1667],
            [ 0.3333,  0.0000, -0.1667, -0.1667],
            [-0.1667, -0.1667,  0.0000,  0.3333],
            [-0.1667, -0.1667,  0.3333,  0.0000]], dtype=torch.float64)
    """
    n = gram.shape[-1]
    check_count("gram", n)
    u = as_states("gram", gram, ndim=gram.ndim).clone()
    u.diagonal(dim1=-2, dim2=-1).zero_()
    rows = u.sum(-1)
    total = rows.sum(-1)[..., None, None] / ((n - 1) * (n - 2))
    u -= rows[..., None] / (n - 2) + rows[..., None, :] / (n - 2) - total
    u.diagonal(dim1=-2, dim2=-1).zero_()
    return u


def debiased_hsic_of_grams(k: Float[Tensor, "text text"], l: Float[Tensor, "text text"]) -> Float[Tensor, ""]:
    """`HSIC_u` of two symmetric Gram matrices, of any kernel.

    Near 0 for independent features, of either sign; the diagonals are not looked at. float64, O(n²). Raises
    `TooFewError` for n < 4, `ParameterError`, `NonFiniteError`.

    >>> import torch
    >>> k = torch.outer(*2 * [torch.tensor([0.0, 0.0, 1.0, 1.0])])
    >>> round(float(debiased_hsic_of_grams(k, k)), 6)  # (4/9 + 8/36) / 4
    0.166667
    """
    if k.shape != l.shape:
        raise ParameterError(f"k is {tuple(k.shape)} and l is {tuple(l.shape)}; one shape is needed")
    n = len(k)
    return (u_center(k) * u_center(l)).sum() / (n * (n - 3))


def debiased_hsic(x: Float[Tensor, "text dim"], y: Float[Tensor, "text dim2"]) -> Float[Tensor, ""]:
    """`HSIC_u` of the linear kernels: how far the two sets of pairwise similarities vary together.

    From Gram matrices in O(n² (d + d2)) or, for few dimensions, from features in O(n d d2) without any n x n
    matrix, whichever is cheaper. Its expectation is the squared Frobenius norm of the cross-covariance of x
    and y. Takes features as given. float64. Raises `TooFewError` for n < 4, `ParameterError`, `NonFiniteError`.

    >>> import torch
    >>> x = torch.tensor([[0.0], [0.0], [1.0], [1.0]])
    >>> round(float(debiased_hsic(x, x)), 6)
    0.166667
    """
    x, y = as_pair(x, y)
    return hsic_of_centered(center_fully(x), center_fully(y))


def hsic_of_centered(x: Float[Tensor, "text dim"], y: Float[Tensor, "text dim2"]) -> Float[Tensor, ""]:
    """`debiased_hsic` of checked features that are already centred."""
    n, dims, other = len(x), x.shape[1], y.shape[1]
    if n * (dims + other) <= dims * other:
        return (u_center(x @ x.T) * (y @ y.T)).sum() / (n * (n - 3))
    return _closed_form((x.T @ y).square().sum(), x.square().sum(-1), y.square().sum(-1))


def self_hsic_of_centered(x: Float[Tensor, "*batch text dim"]) -> Float[Tensor, "*batch"]:
    """`debiased_hsic(x, x)` of checked, centred features, for each leading index."""
    n, dims = x.shape[-2:]
    if n <= dims:
        return u_center(x @ x.mT).square().sum((-2, -1)) / (n * (n - 3))
    lengths = x.square().sum(-1)
    return _closed_form((x.mT @ x).square().sum((-2, -1)), lengths, lengths)


def _closed_form(
    cross: Float[Tensor, "*batch"], a: Float[Tensor, "*batch text"], b: Float[Tensor, "*batch text"]
) -> Float[Tensor, "*batch"]:
    """The three terms for centred features: 1ᵀK~1 = -sum(a), and 1ᵀK~L~1 = sum(a b), a and b squared lengths."""
    n = a.shape[-1]
    sums = a.sum(-1) * b.sum(-1) / ((n - 1) * (n - 2))
    return (cross + sums - n / (n - 2) * (a * b).sum(-1)) / (n * (n - 3))


def biased_hsic(x: Float[Tensor, "text dim"], y: Float[Tensor, "text dim2"]) -> Float[Tensor, ""]:
    """`tr(KHLH) / (n-1)² = ||XᵀHY||_F² / (n-1)²`, the plug-in estimate (Gretton et al. 2005).

    Never negative, and far above 0 for independent features when n is small beside the dimensions. Features as
    given, float64, O(n d d2). Raises as `debiased_hsic`.

    >>> import torch
    >>> x = torch.tensor([[0.0], [0.0], [1.0], [1.0]])
    >>> round(float(biased_hsic(x, x)), 6)  # (1 / 3)²: the squared variance
    0.111111
    """
    x, y = as_pair(x, y)
    return (center(x).T @ center(y)).square().sum() / (len(x) - 1) ** 2


class HsicStream:
    """`debiased_hsic` over blocks of texts that need not be in memory together.

    Keeps the sums of XᵀY, of rows, of squared lengths and of their products, about the mean of the first block:
    any shift leaves HSIC_u as it is, and this one keeps the digits. Memory O(d d2), time O(n d d2).

    >>> import torch
    >>> x = torch.tensor([[0.0], [0.0], [1.0], [1.0]])
    >>> stream = HsicStream()
    >>> stream.update(x[:1], x[:1])
    >>> stream.update(x[1:], x[1:])
    >>> round(float(stream.value()), 6)
    0.166667
    """

    def __init__(self) -> None:
        self.n = 0

    def update(self, x: Float[Tensor, "text dim"], y: Float[Tensor, "text dim2"]) -> None:
        """Add a block of texts. Raises `ParameterError` for rows or dimensions that do not fit, `NonFiniteError`."""
        x, y = as_states("x", x, ndim=2), as_states("y", y, ndim=2)
        if len(x) != len(y) or len(x) == 0:
            raise ParameterError(f"x has {len(x)} rows and y {len(y)}; equally many, one or more, are needed")
        if self.n == 0:
            self._start(x, y)
        if x.shape[1:] != self._shift[0].shape or y.shape[1:] != self._shift[1].shape:
            raise ParameterError(
                f"blocks have {x.shape[1]} and {y.shape[1]} dimensions; {tuple(self._cross.shape)} as before are needed"
            )
        x, y = x - self._shift[0], y - self._shift[1]
        a, b = x.square().sum(-1), y.square().sum(-1)
        self.n += len(x)
        self._cross += x.T @ y
        for total, block in zip(
            self._sums, (x.sum(0), y.sum(0), b @ x, a @ y, a.sum(), b.sum(), a @ b), strict=True
        ):
            total += block

    def _start(self, x: Tensor, y: Tensor) -> None:
        self._shift = x.mean(0), y.mean(0)
        self._cross = x.new_zeros(x.shape[1], y.shape[1])
        self._sums = [x.new_zeros(shape) for shape in (x.shape[1], y.shape[1]) * 2 + ((),) * 3]

    def value(self) -> Float[Tensor, ""]:
        """`HSIC_u` of all texts so far. Raises `TooFewError` for fewer than four."""
        n = self.n
        check_count("stream", n)
        x, y, bx, ay, a, b, ab = self._sums
        trace = self._cross.square().sum() - ab
        sums = (x @ x - a) * (y @ y - b)
        rows = x @ self._cross @ y - x @ bx - ay @ y + ab
        return (trace + sums / ((n - 1) * (n - 2)) - 2 * rows / (n - 2)) / (n * (n - 3))
