"""Many processes over one store: workers and gateways that are killed, stopped and started again."""
