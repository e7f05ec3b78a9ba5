"""What Moldau's brokers alone can be asked for."""
