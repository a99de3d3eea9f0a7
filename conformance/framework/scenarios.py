"""The scenarios in their order, and how many checks each has."""

from __future__ import annotations

from conformance.framework import (
    cs_01_handshake,
    cs_02_disclosure,
    cs_03_calls,
    cs_04_results,
    cs_05_encodings,
    cs_06_tokens,
    cs_07_savings,
    cs_08_http,
    cs_09_oauth,
    cs_10_soundness,
    cs_11_hardening,
    cs_12_sdk,
    cs_13_sessions,
    own_01_lines,
    own_02_http,
    own_03_tools,
)

SCENARIOS = (
    cs_01_handshake,
    cs_02_disclosure,
    cs_03_calls,
    cs_04_results,
    cs_05_encodings,
    cs_06_tokens,
    cs_07_savings,
    cs_08_http,
    cs_09_oauth,
    cs_10_soundness,
    cs_11_hardening,
    cs_12_sdk,
    cs_13_sessions,
    own_01_lines,
    own_02_http,
    own_03_tools,
)

COUNTS = (5, 7, 8, 12, 14, 16, 8, 5, 7, 5, 15, 8, 4)
"""Checks of CS-01 to CS-13: 114."""
