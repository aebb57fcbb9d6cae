"""Winograd's F(2x2, 3x3): a 2x2 tile of a 3x3 convolution with 16 products in place of 36.

    Y = A' [ (G g G') * (B' d B) ] A        d: 4x4 input tile, g: 3x3 filter, *: element by element

Its sums run over whole tiles, so its rounding errors are not bounded by the direct
form's |x| * |w|.
Source: Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2015.
"""

from __future__ import annotations

from portable._numpy import Array, np
from portable.op import Problem

_INPUT = ((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1))  # B'
_FILTER = ((1, 0, 0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0, 0, 1))  # G
_OUTPUT = ((1, 1, 1, 0), (0, 1, -1, -1))  # A'

# Additions of the transforms by their nested form: per 4x4 input tile, per 3x3 filter (with
# products by 1/2), per 2x2 output tile.
INPUT_OPERATIONS, FILTER_OPERATIONS, OUTPUT_OPERATIONS = 32, 28, 24


def fits(problem: Problem) -> bool:
    """Whether the algorithm applies: 3x3 filters, stride 1, dilation 1."""
    ones = (1, 1)
    return (
        problem["w"].shape[2:] == (3, 3)
        and problem.param("stride") == ones
        and problem.param("dilation") == ones
    )


def convolve(problem: Problem, x: Array, w: Array, magnitude: bool = False) -> Array:
    """The convolution by this algorithm, in the dtype of x and w.

    With `magnitude` everything is taken by absolute value, the transforms included: what the
    rounding errors are relative to.
    """
    n, o, height, width = problem.results[0].shape
    (top, left), groups = problem.param("padding"), problem.param("groups")
    rows, columns = -(-height // 2), -(-width // 2)
    padded = np.zeros((n, x.shape[1], 2 * rows + 2, 2 * columns + 2), x.dtype)
    padded[:, :, top : top + x.shape[2], left : left + x.shape[3]] = x
    tiles = np.lib.stride_tricks.sliding_window_view(padded, (4, 4), (2, 3))[:, :, ::2, ::2]
    b, g, a = (np.array(m, x.dtype) for m in (_INPUT, _FILTER, _OUTPUT))
    if magnitude:
        tiles, w, b, g, a = (np.abs(m) for m in (tiles, w, b, g, a))
    u = g @ w @ g.T
    v = b @ tiles @ b.T
    y = np.empty((n, o, 2 * rows, 2 * columns), x.dtype)
    for group in range(groups):
        inputs = slice(group * w.shape[1], (group + 1) * w.shape[1])
        outputs = slice(group * (o // groups), (group + 1) * (o // groups))
        m = np.einsum("nchwij,ocij->nohwij", v[:, inputs], u[outputs], optimize=True)
        tile = (a @ m @ a.T).transpose(0, 1, 2, 4, 3, 5)
        y[:, outputs] = tile.reshape(n, o // groups, 2 * rows, 2 * columns)
    return y[:, :, :height, :width]
