"""What a visit remembers: the link in the address bar, the draft, the session. No torch."""
