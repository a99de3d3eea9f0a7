"""The profiles that come with the program."""

from __future__ import annotations

from importlib import resources

from delta_protocol.catalogue import profiles
from delta_protocol.catalogue.profiles import Profile


def shipped_profiles() -> tuple[Profile, ...]:
    """Return all profiles, by file name."""
    folder = resources.files("delta_actors.registry") / "profiles"
    files = sorted((entry for entry in folder.iterdir() if entry.name.endswith(".toml")), key=lambda entry: entry.name)
    return tuple(profiles.parse(entry.read_text(encoding="utf-8")) for entry in files)
