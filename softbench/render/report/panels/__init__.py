"""The panels of the page: each is a function of the contents, and returns nothing if it would be empty."""
