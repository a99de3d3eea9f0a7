"""The journal: owns every delta, from its plan to its undo, and is the only one that sends writes.

Asked by transport (programs, undo, reading) and by the operator's command line (approval, listing)
through `delta_protocol.wire.journal`; asks only the registry. It keeps one SQLite file, `journal.db`,
behind the `Store` interface, and trusts nobody's plan: what is handed in is derived again.
What a change means is decided in `delta_protocol.changes`; here is what waits: disk, connectors, people.
"""

from delta_actors.journal.actor import JournalActor as JournalActor
