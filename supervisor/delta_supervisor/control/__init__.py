"""The control socket of a running stack: status, stop, admission of a person's command line, attached relays.

One JSON message per line, one reply per request, over `control.sock` in the runtime directory. Only processes of the
same user are answered (SO_PEERCRED). Whoever is attached keeps an auto-started stack alive.
"""
