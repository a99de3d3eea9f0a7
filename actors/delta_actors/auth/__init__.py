"""The auth actor: knows which bearer tokens are good, and for whom.

Transport asks it to verify a token that a client presented; only the operator's link may add, revoke or list tokens
(`delta_protocol.wire.auth`). It owns `auth.json` in the state directory, which holds hashes, never tokens; it asks
nobody.
"""

from delta_actors.auth.actor import AuthActor as AuthActor
