"""Random plans on cards a few bytes short: the sentence that torch prints, read and diagnosed."""
