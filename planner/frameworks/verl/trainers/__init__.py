"""What verl's ``main_ppo`` has for each method, a file each, named as the method's folder is."""
