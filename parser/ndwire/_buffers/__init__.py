"""Where decoded bytes go: base64 into memory that grows."""
