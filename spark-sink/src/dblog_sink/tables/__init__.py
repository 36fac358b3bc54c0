"""One table brought up to a set of raw records, in its mode; and the quarantine for what cannot be applied."""
