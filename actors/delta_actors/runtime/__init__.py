"""The actor runtime: actors, refs, links, and their supervision inside one process."""

from delta_actors.runtime.actor import Actor as Actor
from delta_actors.runtime.actor import Call as Call
from delta_actors.runtime.actor import Context as Context
from delta_actors.runtime.actor import Handlers as Handlers
from delta_actors.runtime.actor import Listener as Listener
from delta_actors.runtime.actor import Ref as Ref
