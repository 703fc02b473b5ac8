"""What a mount is asked to do."""
