"""The MCP library: `DeltaServer` and `DeltaClient` in both eras, over stdio, line streams and Streamable HTTP.

A library without actors: it knows no other package but `delta_protocol`, and anybody may use it. Importing it loads
neither hypercorn nor httpx; the HTTP drivers load theirs on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from delta_actors.mcp.client import DeltaClient as DeltaClient
from delta_actors.mcp.client import open_stdio as open_stdio
from delta_actors.mcp.client_calls import OnProgress as OnProgress
from delta_actors.mcp.client_calls import OnQuestion as OnQuestion
from delta_actors.mcp.client_features import ClientFeatures as ClientFeatures
from delta_actors.mcp.client_subscriptions import Change as Change
from delta_actors.mcp.client_subscriptions import changes as changes
from delta_actors.mcp.connecting import connect as connect
from delta_actors.mcp.context import RequestContext as RequestContext
from delta_actors.mcp.context import ToolSource as ToolSource
from delta_actors.mcp.progressive import Disclosure as Disclosure
from delta_actors.mcp.resources import Watcher as Watcher
from delta_actors.mcp.result_policy import ResultPolicy as ResultPolicy
from delta_actors.mcp.server import DeltaServer as DeltaServer
from delta_actors.mcp.server import ServerSettings as ServerSettings
from delta_actors.mcp.server import Sources as Sources
from delta_actors.mcp.stdio_client import StdioParameters as StdioParameters
from delta_actors.mcp.tasks import TaskLimits as TaskLimits
from delta_protocol.mcp.errors import ClientCannot as ClientCannot
from delta_protocol.mcp.errors import McpError as McpError
from delta_protocol.mcp.errors import NoReply as NoReply
from delta_protocol.mcp.errors import NotSent as NotSent
from delta_protocol.mcp.errors import RpcError as RpcError
from delta_protocol.mcp.errors import UnknownTool as UnknownTool
from delta_protocol.mcp.offers import Completion as Completion
from delta_protocol.mcp.offers import PromptMessage as PromptMessage
from delta_protocol.mcp.offers import PromptResult as PromptResult
from delta_protocol.mcp.offers import UnknownPrompt as UnknownPrompt
from delta_protocol.mcp.offers import UnknownResource as UnknownResource
from delta_protocol.mcp.questions import Question as Question
from delta_protocol.mcp.questions import elicit as elicit
from delta_protocol.mcp.questions import elicit_url as elicit_url
from delta_protocol.mcp.questions import roots as roots
from delta_protocol.mcp.questions import sample as sample
from delta_protocol.mcp.types import Annotations as Annotations
from delta_protocol.mcp.types import AudioContent as AudioContent
from delta_protocol.mcp.types import CallToolReply as CallToolReply
from delta_protocol.mcp.types import EmbeddedResource as EmbeddedResource
from delta_protocol.mcp.types import Icon as Icon
from delta_protocol.mcp.types import ImageContent as ImageContent
from delta_protocol.mcp.types import ResourceContents as ResourceContents
from delta_protocol.mcp.types import ResourceLink as ResourceLink
from delta_protocol.mcp.types import TextContent as TextContent
from delta_protocol.mcp.types import ToolDefinition as ToolDefinition
from delta_protocol.mcp.types import ToolResult as ToolResult

if TYPE_CHECKING:
    from delta_actors.mcp.access import Access as Access
    from delta_actors.mcp.access import bearer_access as bearer_access
    from delta_actors.mcp.access import oauth_access as oauth_access
    from delta_actors.mcp.access import open_access as open_access
    from delta_actors.mcp.access import token_hash as token_hash
    from delta_actors.mcp.http_client import HttpParameters as HttpParameters
    from delta_actors.mcp.http_client import open_http as open_http
    from delta_actors.mcp.http_serve import serve_http as serve_http
    from delta_actors.mcp.http_settings import HttpSettings as HttpSettings
    from delta_actors.mcp.oauth_client import OAuth as OAuth
    from delta_actors.mcp.oauth_redirect import loopback as loopback
    from delta_actors.mcp.oauth_settings import OAuthSettings as OAuthSettings
    from delta_actors.mcp.resource_server import ResourceSettings as ResourceSettings
    from delta_actors.mcp.resource_server import TokenVerifier as TokenVerifier
    from delta_actors.mcp.resource_server import TrustedIssuer as TrustedIssuer
    from delta_actors.mcp.resource_server_introspection import Introspection as Introspection
    from delta_actors.mcp.resource_server_keys import KeyTimes as KeyTimes
    from delta_actors.mcp.websocket_client import WebSocketParameters as WebSocketParameters
    from delta_actors.mcp.websocket_client import open_websocket as open_websocket

_LAZY = {
    "HttpParameters": "http_client",
    "open_http": "http_client",
    "serve_http": "http_serve",
    "HttpSettings": "http_settings",
    "OAuth": "oauth_client",
    "OAuthSettings": "oauth_settings",
    "loopback": "oauth_redirect",
    **dict.fromkeys(("Access", "bearer_access", "oauth_access", "open_access", "token_hash"), "access"),
    **dict.fromkeys(("ResourceSettings", "TokenVerifier", "TrustedIssuer"), "resource_server"),
    "Introspection": "resource_server_introspection",
    "KeyTimes": "resource_server_keys",
    **dict.fromkeys(("WebSocketParameters", "open_websocket"), "websocket_client"),
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - PEP 562
    """Load an HTTP driver when one of its names is first used."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)
