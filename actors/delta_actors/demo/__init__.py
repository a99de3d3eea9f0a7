"""The connectors that a stack without configuration starts with, as ordinary MCP servers in processes of their own.

`tickets` is a small ticket tracker over SQLite; `files` shows a directory read-only. Each is started like any other
connector (`python -m delta_actors.demo.tickets --db PATH`), speaks MCP on stdin and
stdout, and knows nothing of actors.
"""
