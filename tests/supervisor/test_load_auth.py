"""`[auth]`: one mode with all that it needs and nothing that it ignores."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from delta_supervisor.load import ConfigurationError, Flags, Loaded, load
from delta_supervisor.load.load import printable

OAUTH = """
mode = "oauth"
public_url = "https://delta.example/mcp"
issuer = "https://as.example"
"""
KEYS = 'jwks_url = "https://as.example/keys"\n'
ASKED = '[auth.introspection]\nurl = "https://as.example/introspect"\n'
PAGE = Path(__file__).resolve().parents[2] / "docs" / "operations.md"


def loaded(home: Path, text: str, **environment: str) -> Loaded:
    file = home / "delta.toml"
    file.write_text(text if text.startswith("version") else f"version = 1\n[auth]\n{text}")
    return load(Flags((file,), home / "state", ()), {"HOME": str(home), **environment}, home)


@pytest.mark.parametrize(
    ("text", "chosen", "asks"),
    [
        ("", "open", False),
        ('mode = "open"', "open", False),
        ("require_token = true", "bearer", True),
        ('mode = "bearer"', "bearer", True),
        ('mode = "bearer"\nrequire_token = true\nscopes = ["delta"]', "bearer", True),
        (OAUTH + KEYS, "oauth", True),
        (OAUTH + ASKED, "oauth", True),
    ],
)
def test_the_mode_says_whether_a_token_is_asked_for(tmp_path: Path, text: str, chosen: str, asks: bool) -> None:
    auth = loaded(tmp_path, text).config.auth
    assert (auth.chosen, auth.asks) == (chosen, asks)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('mode = "any"', "auth.mode"),
        ('mode = "open"\nrequire_token = true', "auth.require_token"),
        ('issuer = "https://as.example"', "auth.issuer"),
        ('mode = "bearer"\njwks_url = "https://as.example"', "auth.jwks_url"),
        ('mode = "bearer"\nalgorithms = ["ES256"]', "auth.algorithms"),
        ('mode = "bearer"\n' + ASKED, "auth.introspection"),
        ('mode = "oauth"', "auth.public_url"),
        ('mode = "oauth"\npublic_url = "https://h/mcp"', "auth.issuer"),
        (OAUTH, "auth.jwks_url"),
        (OAUTH + '[auth.introspection]\nclient_id = "x"', "auth.jwks_url"),
        (OAUTH + KEYS + '[auth.introspection]\nclient_id = "x"', "auth.introspection.url"),
        (OAUTH + ASKED + 'client_secret = "env:S"', "auth.introspection.client_id"),
        (OAUTH + ASKED + 'client_id = "x"\nclient_secret = "literal"', "auth.introspection.client_secret"),
        (OAUTH + ASKED + 'client_id = "x"\nclient_secret = "env:MISSING"', "auth"),
        (OAUTH + KEYS + 'algorithms = ["HS256"]', "auth"),
        (OAUTH + KEYS + 'algorithms = ["none"]', "auth"),
        (OAUTH + KEYS + 'scopes = ["a b"]', "auth"),
        (OAUTH + KEYS + 'implied_scopes = { a = ["b c"] }', "auth"),
        ('implied_scopes = { "a b" = ["c"] }', "auth"),
        (OAUTH + KEYS + "leeway = 1e9", "auth"),
        (OAUTH + 'jwks_url = "http://as.example/keys"', "auth"),
        (OAUTH.replace("https://delta", "http://delta") + KEYS, "auth"),
        (OAUTH.replace("https://as", "http://as") + KEYS, "auth"),
    ],
)
def test_what_would_leave_a_door_open_or_shut_stops_the_start(tmp_path: Path, text: str, path: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        loaded(tmp_path, text)
    assert raised.value.detail["path"] == path


def test_the_secret_is_fetched_and_never_shown(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s3cret-of-file\n")
    for reference in ("env:INTROSPECTION", "file:secret"):
        text = OAUTH + ASKED + f'client_id = "x"\nclient_secret = "{reference}"'
        config = loaded(tmp_path, text, INTROSPECTION="s3cret-of-env").config
        secret = config.auth.introspection.client_secret
        assert secret is not None
        assert secret.startswith("s3cret-of-")
        assert "s3cret" not in msgspec.json.encode(printable(config)).decode()


def test_urls_may_come_from_variables(tmp_path: Path) -> None:
    text = OAUTH.replace("https://delta.example", "${PUBLIC}") + KEYS
    assert loaded(tmp_path, text, PUBLIC="https://here.example").config.auth.public_url == "https://here.example/mcp"
    with pytest.raises(ConfigurationError, match="PUBLIC"):
        loaded(tmp_path, text)


def test_the_example_of_the_page_can_be_loaded(tmp_path: Path) -> None:
    (block,) = [part.split("```")[0] for part in PAGE.read_text().split("```toml\n")[1:] if 'mode = "oauth"' in part]
    assert loaded(tmp_path, block).config.auth.asks
    everything = "\n".join(line.removeprefix("# ") for line in block.splitlines() if not line.startswith("# For"))
    auth = loaded(tmp_path, everything, DELTA_INTROSPECTION_SECRET="s").config.auth
    assert auth.introspection.client_secret == "s"
