"""The registry: owns the connectors (their processes and sessions) and the catalogue made of what they list.

Messages: `delta_protocol.wire.registry`. Transport, sandbox and the operator may read and look; a write is taken from
the journal's link alone. It asks auth, nobody else. Its file is `registry/catalogue.json` in the state directory.
`actor` answers messages; `book` keeps the numbered snapshots, `offers` what connectors offer beside tools; `memory` is
the files; `upstream` is one connector with its sessions (`session`), `following` and `listening` keep its lists up to
date; `calls` turns what a connector did with a call into an outcome; `profiles/` says what is known about some servers
beforehand.
"""

from delta_actors.registry.actor import RegistryActor as RegistryActor
