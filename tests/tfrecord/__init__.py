"""TFRecord files and Examples."""
