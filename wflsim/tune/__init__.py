"""How many local steps tau: the target for the least energy, time or cost, in one regime or over a map of them."""
