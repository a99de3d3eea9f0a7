"""Tokens as a model counts them, where a tokenizer is installed; else about what our estimate stands for."""

from __future__ import annotations

import importlib
import importlib.util
import warnings

from delta_protocol.tokens import estimate

EXACT = importlib.util.find_spec("bpe_openai") is not None


def tokens(text: str) -> int:
    if not EXACT:
        return estimate(text) * 2 // 3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        module = importlib.import_module("bpe_openai")
    return len(module.get_encoding("o200k_base").encode(text))
