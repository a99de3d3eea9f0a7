"""What to do instead, for names that programs of other places have and ours do not."""

from __future__ import annotations

from typing import Final

_MODULES: Final = (
    "programs have no modules: JavaScript's own built-ins are there, everything outside comes from connectors"
)
_NETWORK: Final = "programs have no network: call a connector's tool, await CONNECTOR.TOOL({...})"
_TIMERS: Final = "there are no timers: await sleep(milliseconds)"
_PROCESS: Final = "programs have no process, files or environment: what comes from outside is a connector"
_PAGE: Final = "programs run in no browser: connectors are variables, console.log writes lines into the answer"
_CLOCK: Final = "Date.now() is there and is frozen for the task, so time cannot be measured"
_FORMAT: Final = (
    "there are no locales: write the text yourself, for example value.toFixed(2) or date.toISOString().slice(0, 10)"
)
_TEXT: Final = "use strings; btoa and atob are there for base64"

INSTEAD: Final = {
    **dict.fromkeys(("require", "module", "exports", "__dirname", "__filename"), _MODULES),
    **dict.fromkeys(("fetch", "XMLHttpRequest", "WebSocket", "axios", "navigator", "EventSource"), _NETWORK),
    **dict.fromkeys(("setTimeout", "setInterval", "setImmediate", "clearTimeout", "clearInterval"), _TIMERS),
    **dict.fromkeys(("process", "Deno", "Bun", "fs", "path", "os", "child_process"), _PROCESS),
    **dict.fromkeys(
        ("window", "document", "global", "self", "localStorage", "sessionStorage", "alert", "prompt"), _PAGE
    ),
    **dict.fromkeys(("performance", "Temporal"), _CLOCK),
    "Intl": _FORMAT,
    **dict.fromkeys(("Buffer", "TextEncoder", "TextDecoder", "Blob"), _TEXT),
    "crypto": "there is no randomness beside Math.random(), which is seeded for the task; let the connector make ids",
    "structuredClone": "write JSON.parse(JSON.stringify(value))",
    **dict.fromkeys(("URL", "URLSearchParams"), "use strings with encodeURIComponent and split"),
    "print": "write console.log(...)",
    **dict.fromkeys(
        ("callTool", "call_tool", "mcp", "tools", "client"), "connectors are variables: await CONNECTOR.TOOL({...})"
    ),
    "WebAssembly": "there is no WebAssembly",
}
"""A global's name, and the way to what it is wanted for."""
