"""Linear SVMs on data larger than memory, under a byte limit, with a certificate."""

from __future__ import annotations

__version__ = "0.1.0"
