"""Jobs side by side: what changed between them."""
