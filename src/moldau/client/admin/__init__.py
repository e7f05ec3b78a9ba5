"""One method per administrative request, by subject."""
