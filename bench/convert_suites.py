"""Convert workload files of the collecting schema into the project's suites.

    python -m bench.convert_suites FOLDER [OUT]

FOLDER holds JSON files with "entries" and "cpu_entries" (the same problems at the scale of a small
CPU). Each becomes OUT/NAME.jsonl, as `bench/suites/README.md` describes. Run once per update of the
facts; nothing in the package needs FOLDER.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

SHORT = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "float64": "f64",
         "float8_e4m3": "f8e4m3", "int8": "i8"}  # fmt: skip
REDUCTIONS = {"sum": "sum", "max": "max", "mean": "mean", "argmax": "argmax"}
BLOCK = 128
STATED_TOKENS = {"bert-base": 384, "bert-large-mlperf": 384, "t5-base": 512 + 114,
                 "whisper-tiny": 96, "trace-bert-base-train": 2048, "trace-gpt2-train": 2048,
                 "trace-megatron-bert-train": 256, "trace-m2m100-t5like-train": 512}  # fmt: skip
"""Tokens per unit by sequence length (BERT), stated lengths, or rows of the vocabulary's embedding
(training traces); where another embedding is looked up too, its rows are no tokens."""

Mapped = dict[str, Any]
"""{"op", "operands", "params"?, "approx"?}: one problem of ours."""


class Unmapped(Exception):
    """The source entry has no op of ours; the message says what is missing."""


def tensor(dtype: str, *shape: int, layout: str = "") -> str:
    """ "bf16[384x768]", with " transposed" where the last two axes are swapped in memory."""
    text = f"{dtype}[{'x'.join(map(str, shape))}]"
    return f"{text} {layout}" if layout else text


def _matmul(p: Mapping[str, Any], d: str) -> list[Mapped]:
    m, n, k = p["m"], p["n"], p["k"]
    flip_a, flip_b = bool(p.get("transpose_a")), bool(p.get("transpose_b"))
    if p.get("column_major"):
        # C = A B in column-major order is C' = B' A' in row-major order on the same memory.
        m, n, flip_a, flip_b = n, m, flip_b, flip_a
    lead = (p["batch"],) if p.get("batch") else ()
    a = tensor(d, *lead, m, k, layout="transposed" if flip_a else "")
    b = tensor(d, *lead, k, n, layout="transposed" if flip_b else "")
    if not (p.get("bias") or p.get("residual") or p.get("activation")):
        return [{"op": "matmul", "operands": {"a": a, "b": b}}]
    if lead:
        raise Unmapped("batched matmul with an epilogue")
    operands = {"x": a, "w": b}
    if p.get("bias"):
        operands["bias"] = tensor(d, n)
    if p.get("residual"):
        operands["residual"] = tensor(d, m, n)
    params = {"activation": p["activation"]} if p.get("activation") else {}
    return [{"op": "linear", "operands": operands, "params": params}]


def _quant_matmul(p: Mapping[str, Any], d: str) -> list[Mapped]:
    m, n, k = p["m"], p["n"], p["k"]
    out = {"out_dtype": p["out_dtype"]}
    blocks = -(-k // BLOCK)
    block = p.get("scale") == f"block{BLOCK}"
    mapped: Mapped = {
        "op": "quantized_matmul",
        "operands": {
            "a": tensor(d, m, k),
            "b": tensor(d, k, n, layout="transposed" if p.get("transpose_b") else ""),
            "scale_a": tensor("f32", m, blocks if block else 1),
            "scale_b": tensor("f32", blocks, -(-n // BLOCK)) if block else tensor("f32", 1, n),
        },
        "params": {**out, **({"block": BLOCK} if block else {})},
    }
    if not block:
        mapped["approx"] = "one scale per row of a and column of b assumed"
    return [mapped]


def _attention(p: Mapping[str, Any], d: str) -> list[Mapped]:
    pairs: dict[tuple[int, int], int] = {}
    for q, kv in zip(p["q_lens"], p["kv_lens"], strict=True):
        pairs[q, kv] = pairs.get((q, kv), 0) + 1
    notes = [name for name in ("paged", "mla") if p.get(name)]
    if len(pairs) > 1 and len({q for q, _ in pairs}) == 1:
        batch, tokens = sum(pairs.values()), sum(kv * n for (_, kv), n in pairs.items())
        lengths = [kv for _, kv in pairs]
        notes.append(f"ragged: {min(lengths)} to {max(lengths)} keys as their mean")
        pairs = {(p["q_lens"][0], round(tokens / batch)): batch}
    return [_one_attention(p, d, q, kv, batch, notes) for (q, kv), batch in pairs.items()]


def _one_attention(
    p: Mapping[str, Any], d: str, q: int, kv: int, batch: int, notes: list[str]
) -> Mapped:
    window, notes = p.get("window"), list(notes)
    if window and kv > window:
        if q > 1:
            raise Unmapped("attention with a sliding window over a long prompt")
        kv = window
        notes.append(f"window of {window} keys")
    size, value_size = p["head_dim"], p.get("v_head_dim") or p["head_dim"]
    mapped: Mapped = {
        "op": "attention",
        "operands": {
            "q": tensor(d, batch, p["q_heads"], q, size),
            "k": tensor(d, batch, p["kv_heads"], kv, size),
            "v": tensor(d, batch, p["kv_heads"], kv, value_size),
        },
        "size": batch * q * kv,  # splits the share when one call becomes several
    }
    if p["causal"] and q > 1:
        mapped["params"] = {"causal": True}
    if notes:
        mapped["approx"] = "; ".join(notes)
    return mapped


def _conv2d(p: Mapping[str, Any], d: str) -> list[Mapped]:
    groups, dilation = p.get("groups") or 1, p.get("dil") or 1
    operands = {
        "x": tensor(d, p["nb"], p["c"], p["h"], p["w"]),
        "w": tensor(d, p["k"], p["c"] // groups, p["r"], p["s"]),
    }
    if p.get("bias"):
        operands["bias"] = tensor(d, p["k"])
    params = {"stride": [p["sh"], p["sw"]], "padding": [p["ph"], p["pw"]],
              "dilation": [dilation, dilation], "groups": groups}  # fmt: skip
    defaults = {"stride": [1, 1], "padding": [0, 0], "dilation": [1, 1], "groups": 1}
    mapped: Mapped = {"op": "conv2d", "operands": operands}
    mapped["params"] = {name: v for name, v in params.items() if v != defaults[name]}
    if p.get("activation"):
        mapped["approx"] = f"without its {p['activation']}"
    return [mapped]


def _layer_norm(p: Mapping[str, Any], d: str) -> list[Mapped]:
    n = p["shape"][-1]
    operands = {"x": tensor(d, *p["shape"]), "weight": tensor(d, n), "bias": tensor(d, n)}
    return [{"op": "layer_norm", "operands": operands}]


def _rms_norm(p: Mapping[str, Any], d: str) -> list[Mapped]:
    operands = {"x": tensor(d, *p["shape"]), "weight": tensor(d, p["shape"][-1])}
    return [{"op": "rms_norm", "operands": operands}]


def _add_rms_norm(p: Mapping[str, Any], d: str) -> list[Mapped]:
    x = tensor(d, *p["shape"])
    operands = {"x": x, "residual": x, "weight": tensor(d, p["shape"][-1])}
    return [{"op": "add_rms_norm", "operands": operands}]


def _rope(p: Mapping[str, Any], d: str) -> list[Mapped]:
    *lead, heads, size = p["shape"]
    table = tensor("f32", *lead, 1, size // 2)  # (tokens, heads, size): one row per token
    return [
        {"op": "rope", "operands": {"x": tensor(d, *lead, heads, size), "cos": table, "sin": table}}
    ]


def _swiglu(p: Mapping[str, Any], d: str) -> list[Mapped]:
    x = tensor(d, *p["shape"])
    return [{"op": "swiglu", "operands": {"gate": x, "up": x}}]


def _embedding(p: Mapping[str, Any], d: str) -> list[Mapped]:
    *indices, _ = p["shape"]
    operands = {"table": tensor(d, *p["table"]), "indices": tensor("i64", *indices)}
    return [{"op": "embedding", "operands": operands}]


def _along_axis(op: str) -> Callable[[Mapping[str, Any], str], list[Mapped]]:
    def convert(p: Mapping[str, Any], d: str) -> list[Mapped]:
        mapped: Mapped = {"op": op, "operands": {"x": tensor(d, *p["shape"])}}
        axis = p.get("axis", -1)
        needs = op in ("cumsum", "argmax")
        if needs or axis not in (-1, len(p["shape"]) - 1):
            mapped["params"] = {"axis": axis}
        return [mapped]

    return convert


def _reduce(p: Mapping[str, Any], d: str) -> list[Mapped]:
    op, axes = REDUCTIONS.get(p["fn"]), p.get("axes")
    if op is None:
        raise Unmapped(f"reduce {p['fn']}")
    mapped: Mapped = {"op": op, "operands": {"x": tensor(d, *p["shape"])}}
    if axes is not None:
        axes = [axes] if isinstance(axes, int) else axes
        mapped["params"] = {"axis": axes[0] if op == "argmax" else axes}
    return [mapped]


def _cross_entropy(p: Mapping[str, Any], d: str) -> list[Mapped]:
    n, _ = p["shape"]
    operands = {"logits": tensor(d, *p["shape"]), "targets": tensor("i64", n)}
    return [{"op": "cross_entropy", "operands": operands}]


def _elementwise(p: Mapping[str, Any], d: str) -> list[Mapped]:
    if p["fn"] not in ("gelu", "gelu_tanh"):
        raise Unmapped(f"elementwise {p['fn']}")
    mapped: Mapped = {"op": "gelu", "operands": {"x": tensor(d, *p["shape"])}}
    if p["fn"] == "gelu_tanh":
        mapped["params"] = {"approximate": "tanh"}
    return [mapped]


CONVERTERS: dict[str, Callable[[Mapping[str, Any], str], list[Mapped]]] = {
    "matmul": _matmul, "quant_matmul": _quant_matmul, "attention": _attention, "conv2d": _conv2d,
    "layer_norm": _layer_norm, "rms_norm": _rms_norm, "fused_add_rms_norm": _add_rms_norm,
    "rotary": _rope, "silu_mul": _swiglu, "gather": _embedding, "softmax": _along_axis("softmax"),
    "log_softmax": _along_axis("log_softmax"), "cumsum": _along_axis("cumsum"),
    "argmax": _along_axis("argmax"), "reduce": _reduce, "cross_entropy": _cross_entropy,
    "elementwise": _elementwise,
}  # fmt: skip


def convert(entry: Mapping[str, Any]) -> list[Mapped]:
    """The problems of ours that one source entry stands for.

    Raises:
        Unmapped: there is no op for it.
    """
    if entry["op"] not in CONVERTERS:
        raise Unmapped("strided copy" if entry["op"] == "transpose" else entry["op"])
    mapped = CONVERTERS[entry["op"]](entry["params"], SHORT[entry["dtype"]])
    for one in mapped:
        if not one.get("params"):
            one.pop("params", None)
    return mapped


def suite(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The lines of a suite: its head, then its entries."""
    kept = ("kind", "source", "weight_unit")
    head = {"suite": data["name"], **{name: data[name] for name in kept}}
    head["source"] = [text.replace("tools/serving_mix.py ", "") for text in head["source"]]
    head["assumptions"] = data.get("assumptions", [])
    lines: list[dict[str, Any]] = [head]
    for full, cpu in zip(data["entries"], data["cpu_entries"], strict=True):
        lines += _entries(full, cpu)
    if count := tokens(lines):
        head["tokens"] = count
    if count := devices(head["suite"]):
        head["devices"] = count
    return lines


def devices(name: str) -> int:
    """Devices that a suite's name says it is split over; 0 when it is not."""
    split = re.search(r"-tp(\d+)", name)
    return int(split[1]) if split else 0


def tokens(lines: Sequence[Mapping[str, Any]]) -> float:
    """Tokens that one unit reads and writes; 0 where the suite has no such notion."""
    head, *entries = lines
    if head["kind"] != "llm-inference":
        return STATED_TOKENS.get(head["suite"], 0)
    rows = (
        line["weight"] * int(line["operands"]["indices"].partition("[")[2].rstrip("]"))
        for line in entries
        if line.get("op") == "embedding"
    )
    return round(sum(rows), 2)


def _entries(full: Mapping[str, Any], cpu: Mapping[str, Any]) -> list[dict[str, Any]]:
    common = {"weight": full["weight"], "share": full["time_share"], "note": full["note"]}
    try:
        problems, small = convert(full), convert(cpu)
    except Unmapped as why:
        what = {k: v for k, v in full["params"].items() if v not in (None, False)}
        return [{"unmapped": str(why), "dtype": full["dtype"], "what": _short(what), **common}]
    if len(problems) != len(small):
        small = small[:1] * len(problems)
    sizes = [problem.pop("size", 1) for problem in problems]
    found = []
    for problem, little, size in zip(problems, small, sizes, strict=True):
        entry = {**problem, **common, "share": round(common["share"] * size / sum(sizes), 10)}
        fields = ("operands", "params")
        changed = {k: little.get(k, {}) for k in fields if little.get(k) != problem.get(k)}
        if changed:
            entry["cpu"] = changed
        found.append(entry)
    return found


def _short(params: dict[str, Any]) -> dict[str, Any]:
    """Lists of tokens per expert can be hundreds long: their number and sum are kept."""
    tokens = params.get("tokens_per_group")
    if isinstance(tokens, list):
        params = {**params, "tokens_per_group": tokens if len(tokens) <= 8 else None}
        params |= {"groups": len(tokens), "tokens": sum(tokens)}
    for name in ("q_lens", "kv_lens"):
        if isinstance(params.get(name), list) and len(params[name]) > 8:
            params = {**params, name: None, f"{name}_sum": sum(params[name])}
    return {name: value for name, value in params.items() if value is not None}


def main(folder: str, out: str = "bench/suites") -> None:
    """Convert every workload file of a folder."""
    for path in sorted(Path(folder).glob("[!_]*.json")):
        lines = suite(json.loads(path.read_text(encoding="utf-8")))
        text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
        target = Path(out) / f"{path.stem}.jsonl"
        target.write_text(text, encoding="utf-8")
        unmapped = sum(line["share"] for line in lines[1:] if "unmapped" in line)
        print(f"{target.name:40} {len(lines) - 1:5} entries, {1 - unmapped:.1%} mapped")


if __name__ == "__main__":
    main(*sys.argv[1:])
