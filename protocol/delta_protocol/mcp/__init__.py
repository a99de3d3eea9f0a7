"""The Model Context Protocol as data: message types and session machines of both eras."""
