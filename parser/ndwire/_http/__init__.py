"""Responses, files, event streams and lines: where the chunks of a body come from."""
