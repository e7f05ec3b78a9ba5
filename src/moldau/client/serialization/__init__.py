"""Keys and values to bytes and back; fetched batches to records."""
