"""What an operator is given to run it: units, an image, a compose file."""
