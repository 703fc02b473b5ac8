"""What TensorFlow's tf.io returned, and the script that records it (`make golden-tf`)."""
