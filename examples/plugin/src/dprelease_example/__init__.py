"""One kind of each sort for dprelease. Kinds are found by their entry points; nothing is imported here."""
