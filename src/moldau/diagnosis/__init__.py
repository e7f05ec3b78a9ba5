"""What is wrong with a cluster, why, and which command mends it: seen, then judged."""
