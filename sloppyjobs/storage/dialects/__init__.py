"""One file per database; each reads as the difference from the common SQL."""
