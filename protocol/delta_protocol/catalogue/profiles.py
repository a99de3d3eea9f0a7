"""What is known about a server beforehand: effects and collections that cannot be inferred from its listing.

A profile is data. It counts only where the server calls itself by the profile's name, and each part of it only where
the tool it speaks about still has the parameters it speaks about; what does not fit any more is left out, never forced.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from delta_protocol.catalogue.model import ArgumentRule, Effect
from delta_protocol.config import CollectionConfig


class ToolProfile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is known about one tool. `parameters`: the names it must have for this to count, no more and no fewer."""

    parameters: tuple[str, ...]
    effect: Effect | None = None
    rules: tuple[ArgumentRule, ...] = ()


class Profile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`server` is `serverInfo.name`. The bindings of `collections` are checked against the listing."""

    server: str
    about: str
    tools: dict[str, ToolProfile] = {}
    collections: dict[str, CollectionConfig] = {}


def parse(text: str) -> Profile:
    """Return the profile written in TOML. Raises `msgspec.DecodeError` or `msgspec.ValidationError` with the place."""
    return msgspec.toml.decode(text, type=Profile)


def matching(profiles: Iterable[Profile], server_name: str) -> Profile | None:
    """Return the profile for a server that calls itself `server_name`, or None."""
    return next((profile for profile in profiles if profile.server == server_name), None)


def tool_profile(profile: Profile | None, name: str, parameters: Mapping[str, object]) -> ToolProfile | None:
    """Return what is known about the tool, provided that it has exactly the parameters it was known with."""
    known = profile.tools.get(name) if profile else None
    return known if known and set(known.parameters) == set(parameters) else None
