"""The Recommend page: a wish, its search in processes of its own, and three plans that meet it."""
