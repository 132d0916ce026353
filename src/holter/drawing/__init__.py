"""Draw figures as SVG and HTML that need no script."""
