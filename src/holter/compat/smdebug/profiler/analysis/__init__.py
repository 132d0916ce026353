"""smdebug's analyses of profiles, at the paths at which smdebug has them."""
