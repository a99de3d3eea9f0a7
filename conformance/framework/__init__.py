"""Our own black-box suite: the checks CS-01 to CS-13, and what else is asked of a server in both eras."""
