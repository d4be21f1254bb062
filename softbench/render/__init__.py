"""From findings to text, HTML pages and CSV. Pure: no clock, no GPU, no torch."""
