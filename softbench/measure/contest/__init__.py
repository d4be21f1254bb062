"""The parent's side: workers, memory admission, placements, shuffled paired rounds, stopping rule, what a death means."""
