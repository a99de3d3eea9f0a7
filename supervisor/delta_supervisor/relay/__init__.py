"""`delta-supervisor stdio`: a client's stdin and stdout, relayed to the stack of a state directory.

Owns nothing but its client's session: answers no request itself, except those whose outcome was lost. Starts the stack
when there is none. Imports little, because its start is part of every client's first answer: no trio, click or rich.
"""
