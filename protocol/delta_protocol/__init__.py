"""What follows from data alone: messages, codecs, plans and tables. Sans-IO: no tasks, sockets, files or clock."""
