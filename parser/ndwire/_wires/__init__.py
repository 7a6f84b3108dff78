"""One module for each form in which an array travels: what stands in the text, and the array that it is."""
