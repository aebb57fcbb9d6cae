"""Benchmarks: `python -m bench.NAME`. Results with their commands stand in `bench/README.md`."""
