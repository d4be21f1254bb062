"""Moving vectors."""
