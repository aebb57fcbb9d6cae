from portable.testing import conformance_suite

TestIree = conformance_suite("iree", level="core")
