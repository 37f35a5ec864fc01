"""What three thousand random plans are told, and what of it a change of the code moves."""
