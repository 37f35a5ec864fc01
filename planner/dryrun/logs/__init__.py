"""The log of a dry run as plain data, what is put in again, and what it shows. No torch."""
