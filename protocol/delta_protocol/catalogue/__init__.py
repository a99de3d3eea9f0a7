"""What the connectors offer: effects, collections, the API text, search and pins, all as pure functions."""
