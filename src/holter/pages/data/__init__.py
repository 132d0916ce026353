"""Charts, heat maps and timelines as the bytes that the browser's scripts read."""
