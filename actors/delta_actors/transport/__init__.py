"""The transport actor: where clients come in, over Streamable HTTP and over the relays' socket.

Owns the sessions of MCP clients, the key that seals their ids (`session.key` in the state directory) and a short memory
of verified tokens. It asks every other actor, through the gateway; nobody asks it: what a connector wants from a client
travels up the call that caused it.
"""

from delta_actors.transport.actor import TransportActor as TransportActor
