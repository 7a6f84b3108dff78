"""Finding the values of registered names in JSON text that comes in pieces."""
