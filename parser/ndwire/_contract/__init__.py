"""What both directions agree on: errors, limits, dtypes, fields, and the text and bytes that carry them."""
