"""One command, from pytest's options to the files that it leaves."""
