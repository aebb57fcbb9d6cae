"""Plain low-level implementations of every op, in the precision that a kernel would use.

They are written apart from the references: `work` is the type all arithmetic is done in (float64
for float64, else float32). With a shorter `work` they are the wrong implementations of the tests.
"""

from __future__ import annotations

import math

import numpy as np

from portable import dtypes

_erf = np.vectorize(math.erf, otypes=[np.float64])


class Run:
    """One problem with its arrays in the working type."""

    def __init__(self, problem, arrays, work=None):
        self.problem = problem
        self.work = np.dtype(work or ("float64" if problem.dtype == "float64" else "float32"))
        self.given = {}
        for name, array in zip(problem.operands, arrays, strict=True):
            integer = array.dtype.kind in "iub"
            self.given[name] = array if integer else array.astype(self.work)

    def __getitem__(self, name):
        return self.given[name]

    def get(self, name):
        return self.given.get(name)

    def param(self, name):
        return self.problem.param(name)

    def number(self, value):
        return self.work.type(value)

    def out(self, y, i=0):
        return np.asarray(y).astype(dtypes.numpy_dtype(self.problem.results[i].dtype))


def run(problem, arrays, work=None):
    """The result (a tuple when the op has several) of the plain implementation."""
    with np.errstate(all="ignore"):
        return _OPS[problem.op](Run(problem, arrays, work))


def dot(a, b):
    """Matrix product that really accumulates in the type of a: one k after another."""
    if a.dtype != np.float16:
        return np.matmul(a, b)
    a, b = (a[None] if a.ndim == 1 else a), (b[:, None] if b.ndim == 1 else b)
    y = np.zeros(np.matmul(a[..., :0], b[..., :0, :]).shape, a.dtype)
    for k in range(a.shape[-1]):
        y += a[..., k, None] * b[..., k, None, :]
    return y


def total(x, axis, keepdims=False):
    """Sum that really accumulates in the type of x (NumPy's f16 sum does not)."""
    if x.dtype != np.float16:
        return np.sum(x, axis=axis, keepdims=keepdims)
    axes = sorted((axis,) if isinstance(axis, int) else axis)
    for a in reversed([a % x.ndim for a in axes]):
        running = np.cumsum(x, axis=a, dtype=x.dtype)
        x = np.take(running, [-1], axis=a) if x.shape[a] else np.sum(x, axis=a, keepdims=True)
    return x if keepdims else x.squeeze(tuple(a % x.ndim for a in axes))


def matmul(r):
    y = dot(r["a"], r["b"])
    return r.out(y.reshape(r.problem.results[0].shape))


def activate(name, x):
    one = x.dtype.type
    if name is None:
        return x
    if name == "relu":
        return np.maximum(x, 0)
    if name == "silu":
        return x / (1 + np.exp(-x))
    if name == "gelu":
        phi = _erf((x * one(math.sqrt(0.5))).astype(np.float64)).astype(x.dtype) if x.size else x
        return one(0.5) * x * (1 + phi)
    inner = one(math.sqrt(2 / math.pi)) * (x + one(0.044715) * x * x * x)
    return one(0.5) * x * (1 + np.tanh(inner))


def linear(r):
    y = dot(r["x"], r["w"]).reshape(r.problem.results[0].shape)
    if r.get("bias") is not None:
        y = y + r["bias"]
    y = activate(r.param("activation"), y)
    return r.out(y if r.get("residual") is None else y + r["residual"])


def softmax(r):
    x, axis = r["x"], r.param("axis")
    if not x.size:
        return r.out(x)
    e = np.exp(x - x.max(axis, keepdims=True))
    return r.out(e / total(e, axis, True))


def log_softmax(r):
    x, axis = r["x"], r.param("axis")
    if not x.size:
        return r.out(x)
    top = x.max(axis, keepdims=True)
    return r.out(x - top - np.log(total(np.exp(x - top), axis, True)))


def layer_norm(r):
    x = r["x"]
    if not x.size:
        return r.out(x)
    n = r.number(x.shape[-1])
    d = x - total(x, -1, True) / n
    y = d * (1 / np.sqrt(total(d * d, -1, True) / n + r.number(r.param("eps"))))
    y = y if r.get("weight") is None else y * r["weight"]
    return r.out(y if r.get("bias") is None else y + r["bias"])


def _rms(r, x):
    if not x.size:
        return x
    mean = total(x * x, -1, True) / r.number(x.shape[-1])
    y = x * (1 / np.sqrt(mean + r.number(r.param("eps"))))
    return y if r.get("weight") is None else y * r["weight"]


def rms_norm(r):
    return r.out(_rms(r, r["x"]))


def add_rms_norm(r):
    s = r["x"] + r["residual"]
    return r.out(_rms(r, s)), r.out(s, 1)


def gelu(r):
    name = {"none": "gelu", "tanh": "gelu_tanh"}[r.param("approximate")]
    return r.out(activate(name, r["x"]))


def swiglu(r):
    return r.out(activate("silu", r["gate"]) * r["up"])


def sum_(r):
    if not dtypes.is_float(r.problem.dtype):
        x = r["x"].astype(r.problem.results[0].dtype)
        return np.asarray(np.sum(x, axis=r.param("axis"), keepdims=r.param("keepdims")))
    return r.out(total(r["x"], r.param("axis"), r.param("keepdims")))


def mean(r):
    x, axis = r["x"], r.param("axis")
    x = x if dtypes.is_float(r.problem.dtype) else x.astype(np.float64)
    count = math.prod(x.shape[a] for a in axis)
    return r.out(total(x, axis, r.param("keepdims")) / x.dtype.type(count))


def max_(r):
    x, axis = r["x"], r.param("axis")
    return r.out(np.max(x, axis=axis, keepdims=r.param("keepdims")) if x.size else _nothing(r))


def argmax(r):
    if 0 in r.problem.results[0].shape:
        return _nothing(r).astype(np.int64)
    return np.asarray(np.argmax(r["x"], axis=r.param("axis"), keepdims=r.param("keepdims")))


def _nothing(r):
    return np.zeros(r.problem.results[0].shape)


def cumsum(r):
    return r.out(np.cumsum(r["x"], axis=r.param("axis"), dtype=r["x"].dtype))


def transpose(r):
    return r.out(r["x"].transpose(r.param("axes")))


def embedding(r):
    return r.out(r["table"][r["indices"]])


def rope(r):
    x, cos, sin = r["x"], r["cos"], r["sin"]
    half = x.shape[-1] // 2
    pairs = (
        (x[..., 0::2], x[..., 1::2]) if r.param("interleaved") else (x[..., :half], x[..., half:])
    )
    y1, y2 = pairs[0] * cos - pairs[1] * sin, pairs[1] * cos + pairs[0] * sin
    y = np.stack((y1, y2), -1) if r.param("interleaved") else np.concatenate((y1, y2), -1)
    return r.out(y.reshape(x.shape))


def attention(r):
    """One query at a time."""
    q, k, v, mask = r["q"], r["k"], r["v"], r.get("mask")
    b, h, s, t = *q.shape[:3], k.shape[2]
    y = np.zeros(r.problem.results[0].shape, r.work)
    if mask is not None:
        mask = np.broadcast_to(mask, (b, h, s, t))
    for bi, hi, i in np.ndindex(b, h, s):
        if not (t and v.shape[3]):
            continue
        kv = hi // (h // k.shape[1])
        row = (dot(q[bi, hi, i], k[bi, kv].T) * r.number(r.param("scale"))).reshape(t)
        if mask is not None:
            added = mask[bi, hi, i]
            row = np.where(added, row, -np.inf) if mask.dtype == bool else row + added
        if r.param("causal"):
            row = np.where(np.arange(t) <= i + t - s, row, -np.inf)
        row = row.astype(r.work)
        top = row.max()
        e = np.exp(row - (0 if top == -np.inf else top))
        weight = total(e, 0)
        if weight != 0:
            y[bi, hi, i] = dot(e, v[bi, kv]).reshape(-1) / weight
    return r.out(y)


def cross_entropy(r):
    x, targets, ignore = r["logits"], r["targets"], r.param("ignore_index")
    kept = np.array([ignore is None or int(t) != ignore for t in targets], bool)
    loss = np.zeros(len(x), r.work)
    for i in np.flatnonzero(kept):
        top = x[i].max()
        loss[i] = top + np.log(total(np.exp(x[i] - top), 0)) - x[i, targets[i]]
    if r.param("reduction") == "none":
        return r.out(loss)
    summed = total(loss, 0)
    return r.out(summed if r.param("reduction") == "sum" else summed / r.number(kept.sum()))


def conv2d(r):
    """One output element at a time, over a padded copy."""
    x, w = r["x"], r["w"]
    (sh, sw), (dh, dw), (ph, pw) = (r.param(n) for n in ("stride", "dilation", "padding"))
    n, o, height, width = r.problem.results[0].shape
    x = np.pad(x, ((0, 0), (0, 0), (ph, ph), (pw, pw)))
    per_group, channels = o // r.param("groups"), w.shape[1]
    reach_h, reach_w = dh * (w.shape[2] - 1) + 1, dw * (w.shape[3] - 1) + 1
    y = np.zeros((n, o, height, width), r.work)
    for group in range(r.param("groups") if per_group else 0):
        inputs = x[:, group * channels : (group + 1) * channels]
        filters = w[group * per_group : (group + 1) * per_group].reshape(per_group, -1)
        for i, j in np.ndindex(height, width):
            rows = slice(i * sh, i * sh + reach_h, dh)
            window = inputs[:, :, rows, j * sw : j * sw + reach_w : dw]
            k = channels * w.shape[2] * w.shape[3]
            found = dot(window.reshape(n, k), filters.reshape(per_group, k).T)
            y[:, group * per_group : (group + 1) * per_group, i, j] = found
    return r.out(y if r.get("bias") is None else y + r["bias"][:, None, None])


def quantized_matmul(r):
    """Block after block of k, each scaled on its own."""
    a, b, scale_a, scale_b = (r[n] for n in ("a", "b", "scale_a", "scale_b"))
    (m, k), n, block = a.shape, b.shape[1], r.param("block")
    y = np.zeros((m, n), r.work)
    for k0 in range(0, k, block or max(k, 1)):
        last = k0 + (block or k)
        part = dot(a[:, k0:last].astype(r.work), b[k0:last].astype(r.work))
        rows = scale_a
        if scale_a.ndim and scale_a.shape[1] > 1:
            rows = scale_a[:, k0 // block, None]
        columns = scale_b
        if scale_b.ndim and block and scale_b.shape != (1, n):
            line = scale_b[k0 // block if scale_b.shape[0] > 1 else 0]
            columns = line[np.arange(n) // block if len(line) > 1 else np.zeros(n, int)]
        y += part * rows * columns
    return r.out(y)


_OPS = {
    name.rstrip("_"): f
    for name, f in globals().items()
    if callable(f) and getattr(f, "__module__", "") == __name__ and f is not Run
}
