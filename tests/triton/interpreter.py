"""Runs the cases of ops on Triton's interpreter; prints one JSON line per op.

    python tests/triton/interpreter.py OP[,OP…] [--levels core,hostile] [--dtypes …]
        [--all-configs] [--set '{"split": 4}']

A script of its own: Triton reads TRITON_INTERPRET when a kernel is decorated, so that a process
either interprets or compiles.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import time
import warnings
from dataclasses import replace

os.environ["TRITON_INTERPRET"] = "1"
os.environ["PORTABLE_TRITON_INTERPRETER"] = "1"

import numpy as np
import torch

from portable import cases, check, dtypes
from portable.backends.triton import backend
from portable.op import TensorSpec

_VIEWS = {"bfloat16": "int16", "float8_e4m3fn": "uint8"}
SHOWN = 12


def to_torch(array):
    """A torch tensor over the same memory; torch has no negative strides: those are copied."""
    name = array.dtype.name
    if any(s < 0 for s in array.strides):
        array = np.ascontiguousarray(array)
    if name in ("uint16", "uint32", "uint64") or name not in _VIEWS:
        return torch.from_numpy(array)
    return torch.from_numpy(array.view(_VIEWS[name])).view(getattr(torch, name))


def to_numpy(tensor):
    name = str(tensor.dtype).removeprefix("torch.")
    if name in _VIEWS:
        plain = tensor.contiguous().view(getattr(torch, _VIEWS[name])).numpy()
        return plain.view(dtypes.numpy_dtype(name))
    return tensor.numpy()


def spec(tensor):
    name = str(tensor.dtype).removeprefix("torch.")
    return TensorSpec(tuple(tensor.shape), name, tuple(tensor.stride()))


def run(name, levels, only, all_configs, changes, verbose=False):
    """Counts, failures and seconds of one op."""
    op = importlib.import_module(f"portable.ops.{name}").OP
    implementation, (device,) = backend.implementation(name), backend.devices()
    found = {"op": name, "ran": 0, "failures": [], "refused": {}, "seconds": 0.0, "configs": 0}
    started = time.perf_counter()
    for case in op.cases():
        for dtype in cases.dtypes_of(op, case) if case.level in levels else ():
            if only and dtype not in only:
                continue
            arrays = cases.arrays(op, case, dtype)
            tensors = [to_torch(a) for a in arrays]
            asked = cases.problem_of(op, arrays, case)
            problem = replace(asked, tensors=tuple(map(spec, tensors)))
            why = implementation.why_not(problem, device)
            if why:
                found["refused"][why[0]] = found["refused"].get(why[0], 0) + 1
                continue
            found["ran"] += 1
            configs = implementation.configs(problem, device)
            for config in configs if all_configs else [{**configs[0], **changes}]:
                found["configs"] += 1
                begun = time.perf_counter()
                result = implementation.compile(problem, device, config)(*tensors)
                several = isinstance(result, tuple)
                native = tuple(map(to_numpy, result)) if several else to_numpy(result)
                wrong = check.check(op, asked, arrays, native)
                if verbose and time.perf_counter() - begun > 1:
                    print(f"slow: {case.name} {dtype} {time.perf_counter() - begun:.1f} s")
                if wrong and len(found["failures"]) < SHOWN:
                    found["failures"].append(f"{case.name} {dtype} {dict(config)}: {wrong[:2]}")
    found["seconds"] = round(time.perf_counter() - started, 2)
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ops")
    parser.add_argument("--levels", default="core,hostile")
    parser.add_argument("--dtypes", default="")
    parser.add_argument("--all-configs", action="store_true")
    parser.add_argument("--set", default="{}", help="config entries to replace, as JSON")
    parser.add_argument("--verbose", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # NumPy's, inside of the interpreter
    only = tuple(filter(None, given.dtypes.split(",")))
    changes = json.loads(given.set)
    for name in given.ops.split(","):
        levels = given.levels.split(",")
        found = run(name, levels, only, given.all_configs, changes, given.verbose)
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
