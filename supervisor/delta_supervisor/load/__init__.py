"""Reads the configuration: flags, `DELTA_*`, files, defaults become one `StackConfig`, with each value's origin.

Owns: the order of sources, strictness, variable expansion, secrets by reference, connector names. Used by the command
line and by `stack`; knows no actors and starts nothing. Nothing here imports trio or click: the relay loads it too.
"""

from delta_supervisor.load.load import Flags as Flags
from delta_supervisor.load.load import Loaded as Loaded
from delta_supervisor.load.load import load as load
from delta_supervisor.load.shape import ConfigurationError as ConfigurationError
