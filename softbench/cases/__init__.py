"""What is asked, and who answers: shapes, operators with their inputs and references, implementation files."""
