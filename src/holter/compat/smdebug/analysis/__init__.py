"""smdebug's names for analyses, at the paths at which smdebug has them."""
