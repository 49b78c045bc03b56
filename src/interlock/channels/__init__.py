"""Ways for people to reach an agent beside the page. Each puts tasks and shows what becomes of them."""
