"""From records to findings: boards, comparisons, histories, claims. Pure: no clock, no GPU, no torch."""
