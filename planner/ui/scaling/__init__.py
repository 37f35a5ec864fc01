"""The Scaling page: axes, curves and a second plan beside the first. No torch."""
