"""Those who speak to a mount."""
