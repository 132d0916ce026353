"""smdebug's names for reading profiles, at the paths at which smdebug has them."""
