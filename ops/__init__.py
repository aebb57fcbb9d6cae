"""Op contracts: one file per op. No device code, no backend."""
