"""What programs see in a mount, over every engine."""
