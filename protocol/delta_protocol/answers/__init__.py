"""What a client is told: the three tools' definitions, references, and every answer's text, made from data alone."""
