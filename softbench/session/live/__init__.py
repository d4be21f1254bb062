"""The running contest on a terminal: a board by rich if it is installed, else one line; nothing without a terminal."""
