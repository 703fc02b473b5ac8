"""The house: order of rooms, style, documents, builds, programs."""
