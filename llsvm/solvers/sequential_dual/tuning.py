"""SequentialDualTuning: parts of the sequential dual method that may be switched off, for comparison."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SequentialDualTuning:
    """What the method does without them takes longer, and ends as well certified (tools/reproduce)."""

    shrinking: bool = True
    """The paper's. Without it, every loop is a full one."""
    extrapolation: bool = True
    """Without it, loops only (extrapolation.py)."""
    newton: bool = True
    """Newton's method (multipliers.py). Without it, loops and extrapolation only."""


DEFAULT = SequentialDualTuning()
