"""From a body to a document with arrays."""
