"""What waits: the actor runtime, the MCP library, the gateway, and one package per actor."""
