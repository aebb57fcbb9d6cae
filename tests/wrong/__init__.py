"""Implementations that look right and are not. Every one must be rejected, for its own reason."""
