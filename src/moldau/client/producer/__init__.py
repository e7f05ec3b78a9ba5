"""From `send` to the broker's answer: batches, sequences, transactions."""
