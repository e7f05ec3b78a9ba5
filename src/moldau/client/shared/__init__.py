"""What producer, consumer and admin have in common: errors, the background loop, user code."""
