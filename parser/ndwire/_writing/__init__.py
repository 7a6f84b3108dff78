"""From arrays, or from text that holds them, to JSON with envelopes."""
