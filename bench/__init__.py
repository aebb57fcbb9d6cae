"""Benchmarks: `python -m bench.NAME`. Results with their commands stand in `bench/README.md`."""

from portable import spinning

spinning.shorten()
