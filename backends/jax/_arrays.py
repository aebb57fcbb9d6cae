"""JAX's arrays and tracers, and their way to and from host memory."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

from portable import dtypes
from portable.backends.jax._devices import device_id, jax_device
from portable.backends.jax._load import jax, jnp, x64
from portable.errors import DTypeError, FamilyError
from portable.op import TensorSpec

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]

_Tracer = jax.core.Tracer


class JaxFamily:
    """`jax.Array` and, inside of jit, grad and vmap, tracers."""

    name = "jax"
    types: tuple[str, ...] = ("jaxlib.ArrayImpl", "jax.Array", "jax.Tracer", "jax.PRNGKeyArray")

    def key(self, array: Any) -> Hashable:
        """Shape, dtype and sharding; a tracer has no place yet."""
        if isinstance(array, _Tracer):
            return ("jax tracer", array.shape, array.dtype)
        return ("jax", array.shape, array.dtype, array.sharding)

    def spec(self, array: Any) -> TensorSpec:
        """Shape and dtype: JAX's arrays are row-major.

        Raises:
            DTypeError: keys of random numbers and other extended dtypes.
        """
        name = str(array.dtype)
        if name not in dtypes.DTYPES:
            raise DTypeError(f"has dtype {name}; takes {', '.join(dtypes.DTYPES)}")
        return TensorSpec(tuple(int(n) for n in array.shape), name)

    def device(self, array: Any) -> str:
        """Where the array is; for a tracer where JAX would compute by default."""
        if isinstance(array, _Tracer):
            chosen = jax.config.jax_default_device
            return device_id(chosen if hasattr(chosen, "platform") else jax.local_devices()[0])
        return device_id(min(array.devices(), key=lambda d: d.id))

    def constraints(self, array: Any) -> frozenset[str]:
        """ "traceable" for tracers, and for arrays spread over devices: XLA alone knows how."""
        if isinstance(array, _Tracer) or len(array.devices()) > 1:
            return frozenset(("traceable",))
        return frozenset()

    def normalize(self, array: Any) -> Callable[[Any], Any] | None:
        """Never needed."""
        return None

    def why_copy(self, spec: TensorSpec) -> str | None:
        """JAX reads contiguous host memory in place; it copies what is not on a 64-byte address."""
        return None if spec.contiguous else "jax arrays are row-major"

    def to_host(self, array: Any) -> Array:
        """A read-only view of a CPU array, a copy of another; waits until it is computed.

        Raises:
            FamilyError: a tracer has no data.
        """
        import numpy as np

        if isinstance(array, _Tracer):
            raise FamilyError(
                "a tracer inside of jax.jit, grad or vmap has no data yet; only the jax backend "
                "can take it"
            )
        return np.asarray(array)

    def from_host(self, array: Array, device: str) -> Any:
        """An array on the device; on the CPU the same memory where address and order allow.

        The memory must not change before the results that come from it are ready.
        """
        place = jax_device(device)
        if array.dtype.itemsize >= 8:
            with x64():
                return jax.device_put(array, place, may_alias=True)
        return jax.device_put(array, place, may_alias=True)

    def from_dlpack(self, array: Any) -> Any:
        """A view of another library's memory on the same device."""
        return jnp.from_dlpack(array)
