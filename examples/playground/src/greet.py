"""A greeting, to be read, searched and edited."""


def greet(name: str) -> str:
    return f"Hello, {name}"
