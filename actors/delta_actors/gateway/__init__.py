"""The gateway: the three tools, and tools passed through, as straight-line functions in the request's own scope.

No actor: the transport serves it as the tools of its `DeltaServer`. It asks registry, sandbox, journal and results by
their messages, in this order for a program: begin, run, propose, apply, shape. It owns nothing that must survive: the
newest catalogue it has seen, and which catalogue each conversation was shown.
"""

from delta_actors.gateway.catalogues import Catalogues as Catalogues
from delta_actors.gateway.gateway import Gateway as Gateway
from delta_actors.gateway.offered import Offered as Offered
from delta_actors.gateway.offering import PassedCompletions as PassedCompletions
from delta_actors.gateway.offering import PassedPrompts as PassedPrompts
from delta_actors.gateway.offering import PassedResources as PassedResources
from delta_actors.gateway.watches import Watches as Watches
