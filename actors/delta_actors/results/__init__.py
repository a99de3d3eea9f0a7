"""The results actor: keeps values that were too long for an answer, per principal, within size and age bounds.

Only transport asks it (`delta_protocol.wire.results`). It owns the folder `results` of the state directory and
nothing else; it asks nobody. A value is stored whole and read in parts by id, path and slice.
"""

from delta_actors.results.actor import ResultsActor as ResultsActor
