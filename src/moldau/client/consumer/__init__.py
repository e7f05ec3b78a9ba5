"""From the group's coordinator and fetches to `poll`: membership, positions, commits."""
