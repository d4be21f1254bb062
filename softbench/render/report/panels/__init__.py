"""The page's panels: each a function of the contents, and nothing at all where it would be empty."""
