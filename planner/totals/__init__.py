"""From terms to totals: what an instant adds up to, a phase's peak, what is reserved for it."""
