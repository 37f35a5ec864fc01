"""The Import page: what people have already, and the plan that it makes."""
