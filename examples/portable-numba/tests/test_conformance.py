from portable.testing import conformance_suite

TestNumba = conformance_suite("numba", level="full")
