"""Topics of one cluster repeated in another, byte for byte, and the change-over between them."""
