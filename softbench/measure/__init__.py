"""Everything that touches a GPU or a worker process: contests, clocks, checks, roofs. It knows neither pytest nor records."""
