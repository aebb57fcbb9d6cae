"""One call, any array, the best kernel, and its distance from the speed of light.

    import portable
    c = portable.matmul(a, b)              # NumPy, torch, JAX, CuPy, pyopencl arrays
    print(portable.explain("matmul", a, b))

Every op takes arrays of one library and returns arrays of it, on their device. Importing this
package imports no array library; backends are found by entry point at the first call.
"""

from __future__ import annotations

from portable import errors as errors
from portable.api import backends as backends
from portable.api import bind as bind
from portable.api import devices as devices
from portable.api import explain as explain
from portable.api import hardware as hardware
from portable.api import profile as profile
from portable.api import register as register
from portable.api import speed_of_light as speed_of_light
from portable.api import tune as tune
from portable.api import unregister as unregister
from portable.api import using as using

__version__ = "0.1.0"
