"""Implementations: one folder per backend, one module per op. Found by entry point only."""
