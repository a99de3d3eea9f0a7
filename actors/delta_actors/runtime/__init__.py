"""The actor runtime: actors, refs, links, and their supervision inside one process.

Owns no actor. `actor` is the contract, `system` runs actors as tasks, `process` as a process of their own; both are
`host` over `serving` and `calling`, the two ends of a link, over `channel`, the socket.
"""

from delta_actors.runtime.actor import Actor as Actor
from delta_actors.runtime.actor import Call as Call
from delta_actors.runtime.actor import Context as Context
from delta_actors.runtime.actor import Handlers as Handlers
from delta_actors.runtime.actor import Listener as Listener
from delta_actors.runtime.actor import Ref as Ref
from delta_actors.runtime.current import speaking_for as speaking_for
from delta_actors.runtime.supervising import RestartIntensityExceeded as RestartIntensityExceeded
from delta_actors.runtime.system import System as System
from delta_actors.runtime.system import open_actors as open_actors
