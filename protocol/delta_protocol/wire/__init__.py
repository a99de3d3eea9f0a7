"""Messages between actors: the envelope, the greeting, and one module of typed messages per actor."""
