"""The text of numbers, and the first dtype that holds them."""
