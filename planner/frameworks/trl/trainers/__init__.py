"""TRL's trainers, a file each, named as the method's folder is."""
