"""One call, any array, the best kernel, and its distance from the speed of light.

    import portable
    c = portable.matmul(a, b)              # NumPy, torch, JAX, CuPy, pyopencl arrays
    print(portable.explain("matmul", a, b))

Every op takes arrays of one library and returns arrays of it, on their device. Importing this
package imports no array library; backends are found by entry point at the first call.
"""

from __future__ import annotations

from portable import errors as errors
from portable._about import VERSION
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
from portable.backends.torch import _compile
from portable.ops.add_rms_norm import add_rms_norm as add_rms_norm
from portable.ops.argmax import argmax as argmax
from portable.ops.attention import attention as attention
from portable.ops.conv2d import conv2d as conv2d
from portable.ops.cross_entropy import cross_entropy as cross_entropy
from portable.ops.cumsum import cumsum as cumsum
from portable.ops.embedding import embedding as embedding
from portable.ops.gelu import gelu as gelu
from portable.ops.layer_norm import layer_norm as layer_norm
from portable.ops.linear import linear as linear
from portable.ops.log_softmax import log_softmax as log_softmax
from portable.ops.matmul import matmul as matmul
from portable.ops.max import max as max
from portable.ops.mean import mean as mean
from portable.ops.quantized_matmul import quantized_matmul as quantized_matmul
from portable.ops.rms_norm import rms_norm as rms_norm
from portable.ops.rope import rope as rope
from portable.ops.softmax import softmax as softmax
from portable.ops.sum import sum as sum
from portable.ops.swiglu import swiglu as swiglu
from portable.ops.transpose import transpose as transpose

# torch.compile takes every op as one step of its graph. It must know before the first call, which
# may be a traced one; nothing of torch is imported by this, and nothing happens without torch.
_compile.install(
    {
        name: value
        for name, value in list(globals().items())
        if getattr(value, "__module__", "") == f"portable.ops.{name}"
    }
)

__version__ = VERSION
