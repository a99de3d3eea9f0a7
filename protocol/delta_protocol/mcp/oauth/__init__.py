"""The OAuth 2.1 client of MCP over HTTP, as far as it follows from data alone (spec 1.16, 3.8)."""
