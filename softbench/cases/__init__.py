"""Cases and implementations: shapes, operators with their inputs and references, implementation files."""
