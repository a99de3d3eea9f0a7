"""The messages on the control socket between the pool and its zygote; `zygote.py` says what each kind means."""

from __future__ import annotations

import struct
from typing import Final

MESSAGE: Final = struct.Struct(">cII")
"""Kind, then two numbers."""
