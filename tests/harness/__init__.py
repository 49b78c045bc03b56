"""Real parts for tests: runtimes, gateways, bots, browsers, servers, and the fakes they talk to."""
