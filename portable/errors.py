"""Every error that `portable` raises on its own account.

ValueError, TypeError        the caller's mistake (shape, dtype, unknown name)
└── ArgumentError            ... found by an op before any backend is asked
    ├── ShapeError           (ValueError)
    ├── DTypeError           (TypeError)
    ├── ParameterError       (ValueError)  axis, eps, stride ... of a wrong type or value
    ├── FamilyError          (TypeError)   arrays of two families, or of none we know
    ├── DeviceMismatchError  (ValueError)  arrays on two devices
    └── UnknownNameError     (ValueError)  op, backend, device, policy, hardware, workload
PortableError                what the caller could not know
├── UnsupportedError         nothing can run the problem; carries every reason
├── BackendMissingError      the backend asked for is not usable; carries the install line
├── PluginError              a plugin is broken, incompatible or claims a taken name
├── CompileError             a kernel does not build; carries source and log
├── DeviceUnknownError       no entry in the hardware database; says how to add one
├── WrongResultError         an implementation failed its correctness gate
└── RecordError              a record file or store cannot be read; says which line
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping


class PortableError(Exception):
    """Base of the errors a caller could not foresee from its own arguments."""


class ArgumentError(PortableError):
    """The caller's mistake. Concrete classes also derive from ValueError or TypeError."""


class ShapeError(ArgumentError, ValueError):
    """Shapes that do not fit the op."""


class DTypeError(ArgumentError, TypeError):
    """A dtype the op does not take."""


class ParameterError(ArgumentError, ValueError):
    """A parameter (eps, stride, causal ...) of a type or value the op does not take."""


class FamilyError(ArgumentError, TypeError):
    """Arrays of two families in one call, or an object that is no array."""


class DeviceMismatchError(ArgumentError, ValueError):
    """Arrays that live on different devices in one call."""


class UnknownNameError(ArgumentError, ValueError):
    """A name that does not exist; the message lists the near and the known ones."""

    def __init__(self, kind: str, name: object, known: Iterable[str], hint: str = "") -> None:
        import difflib  # late: importing portable must be fast

        names = sorted(known)
        near = difflib.get_close_matches(str(name), names, n=3, cutoff=0.6)
        did_you_mean = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
        listed = ", ".join(names) if names else "none"
        super().__init__(
            f"unknown {kind} {name!r}.{did_you_mean} Known: {listed}."
            + (f" {hint}" if hint else "")
        )
        self.kind, self.name, self.known = kind, name, names


class UnsupportedError(PortableError):
    """No implementation takes the problem.

    `reasons` maps a candidate's name to the phrases that refuse it.
    """

    def __init__(self, message: str, reasons: Mapping[str, Iterable[str]] | None = None) -> None:
        self.reasons = {name: list(why) for name, why in (reasons or {}).items()}
        lines = [f"  {name}: {'; '.join(why)}" for name, why in self.reasons.items()]
        super().__init__("\n".join([message, *lines]))


class BackendMissingError(PortableError):
    """The backend asked for is not usable here; `install` is the line that brings it."""

    def __init__(self, backend: str, reason: str, install: str = "") -> None:
        self.backend, self.reason, self.install = backend, reason, install
        fix = f" To get it: {install}" if install else ""
        super().__init__(f"backend {backend!r} is not available: {reason}.{fix}")


class PluginError(PortableError):
    """A plugin cannot be used: broken import, wrong API version or a name taken twice."""


class CompileError(PortableError):
    """A kernel does not build. `source` and `log` are whole; the message is short."""

    def __init__(self, what: str, log: str, source: str = "") -> None:
        self.log, self.source = log, source
        first = next((line for line in log.splitlines() if "error" in line.lower()), log[:200])
        super().__init__(f"{what} does not compile: {first.strip()} (see .log and .source)")


class DeviceUnknownError(PortableError):
    """The hardware database has no entry for the device."""


class WrongResultError(PortableError):
    """An implementation failed its correctness gate.

    `status` says how, as a record's status does: "incorrect" (outside of the op's error bound),
    "exception", "compile_error", "oom", "crash" or "hang".
    """

    def __init__(self, message: str, status: str = "incorrect") -> None:
        super().__init__(message)
        self.status = status


class RecordError(PortableError):
    """A record file or the record store cannot be used."""
