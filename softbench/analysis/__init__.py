"""From records to findings: boards, comparisons, histories, experiments. Pure: no clock, no GPU, no torch."""
