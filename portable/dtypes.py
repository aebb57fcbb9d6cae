"""Element types: one spelling for all array libraries.

A dtype is its NumPy-style name ("float32", "bfloat16", "float8_e4m3fn") everywhere inside
`portable`, so that a `Problem` can be hashed, stored and read without any library.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from portable.errors import DTypeError

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True)
class DTypeInfo:
    """Facts of one element type.

    Attributes:
        name: NumPy-style name.
        short: the name used in tables ("f32").
        itemsize: bytes of one element.
        kind: "f" float, "i" signed, "u" unsigned integer, "b" bool, "c" complex.
        roundoff: unit round-off u (half an ulp at 1.0); 0 for exact types.
        largest: largest finite value.
    """

    name: str
    short: str
    itemsize: int
    kind: str
    roundoff: float = 0.0
    largest: float = 0.0


_F8_MAX = 448.0  # OCP FP8 E4M3: S.1111.110
DTYPES: dict[str, DTypeInfo] = {
    info.name: info
    for info in (
        DTypeInfo("float64", "f64", 8, "f", 2.0**-53, 1.7976931348623157e308),
        DTypeInfo("float32", "f32", 4, "f", 2.0**-24, 3.4028234663852886e38),
        DTypeInfo("float16", "f16", 2, "f", 2.0**-11, 65504.0),
        DTypeInfo("bfloat16", "bf16", 2, "f", 2.0**-8, 3.3895313892515355e38),
        DTypeInfo("float8_e4m3fn", "f8e4m3", 1, "f", 2.0**-4, _F8_MAX),
        DTypeInfo("float8_e5m2", "f8e5m2", 1, "f", 2.0**-3, 57344.0),
        DTypeInfo("int64", "i64", 8, "i", 0.0, 2.0**63 - 1),
        DTypeInfo("int32", "i32", 4, "i", 0.0, 2.0**31 - 1),
        DTypeInfo("int16", "i16", 2, "i", 0.0, 2.0**15 - 1),
        DTypeInfo("int8", "i8", 1, "i", 0.0, 127.0),
        DTypeInfo("uint64", "u64", 8, "u", 0.0, 2.0**64 - 1),
        DTypeInfo("uint32", "u32", 4, "u", 0.0, 2.0**32 - 1),
        DTypeInfo("uint16", "u16", 2, "u", 0.0, 2.0**16 - 1),
        DTypeInfo("uint8", "u8", 1, "u", 0.0, 255.0),
        DTypeInfo("bool", "b1", 1, "b", 0.0, 1.0),
        DTypeInfo("complex64", "c64", 8, "c", 2.0**-24),
        DTypeInfo("complex128", "c128", 16, "c", 2.0**-53),
    )
}
FLOATS: tuple[str, ...] = ("float64", "float32", "float16", "bfloat16")
INTEGERS: tuple[str, ...] = tuple(n for n, d in DTYPES.items() if d.kind in "iu")

_ALIASES = {info.short: name for name, info in DTYPES.items()} | {
    "fp64": "float64", "double": "float64", "fp32": "float32", "float": "float32",
    "fp16": "float16", "half": "float16", "f2": "float16", "f4": "float32", "f8": "float64",
    "fp8": "float8_e4m3fn", "fp8_e4m3": "float8_e4m3fn", "float8_e4m3": "float8_e4m3fn",
}  # fmt: skip


def canonical(name: str) -> str:
    """The canonical name of a dtype given by name or by a usual short form.

    Raises:
        DTypeError: the name is not known.
    """
    plain = name.removeprefix("torch.").removeprefix("jnp.")
    if plain in DTYPES:
        return plain
    if plain in _ALIASES:
        return _ALIASES[plain]
    raise DTypeError(f"unknown dtype {name!r}; known: {', '.join(DTYPES)}")


def info(name: str) -> DTypeInfo:
    """Facts of a canonical dtype name."""
    return DTYPES[name]


def itemsize(name: str) -> int:
    """Bytes of one element."""
    return DTYPES[name].itemsize


def short(name: str) -> str:
    """The name used in tables: "float32" -> "f32"."""
    return DTYPES[name].short if name in DTYPES else name


def is_float(name: str) -> bool:
    """Whether the dtype is a real floating-point type."""
    return DTYPES[name].kind == "f"


def roundoff(name: str) -> float:
    """Unit round-off u: the largest relative error of rounding a number to this type."""
    return DTYPES[name].roundoff


def accumulator(name: str) -> str:
    """The type in which sums of this type must be accumulated.

    Half types accumulate in float32 (numerics: an f16 accumulator loses 2-6x in relative RMS at
    K=4096), int8 products in int32, everything else in itself.
    """
    if name in ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"):
        return "float32"
    return name


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The NumPy dtype of a canonical name; bfloat16 and fp8 come from ml_dtypes."""
    import numpy as np

    if name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        import ml_dtypes

        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return found
    return np.dtype(name)
