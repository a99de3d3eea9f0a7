"""What a program asked to change: recording, plan, conflicts, inverses, modes, cards and the apply machine."""
