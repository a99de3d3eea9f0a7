"""The auth actor: knows which bearer tokens are good, and for whom.

Transport asks it to verify a token that a client presented; only the operator's link may add, revoke or list tokens
(`delta_protocol.wire.auth`). It owns `auth.json` in the state directory, which holds hashes, never tokens, and in the
mode `oauth` what is known of the issuer: its keys, for a while, and its answers about tokens. It asks no other actor.
"""

from delta_actors.auth.actor import AuthActor as AuthActor
