# noqa: INP001 - a program, not a package
"""Whether the gateway in this container answers; for HEALTHCHECK. Exit 0 if it does."""

import os
import ssl
import sys
import urllib.error
import urllib.request

SECONDS = 4


def main() -> int:
    port = os.environ.get("GATEWAY_PORT") or "8420"
    encrypted = bool(os.environ.get("GATEWAY_TLS_CERT"))
    # The request stays inside the container, so the name in the certificate does not matter.
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    address = f"http{'s' if encrypted else ''}://127.0.0.1:{port}/healthz"
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
    )
    try:
        with opener.open(address, timeout=SECONDS) as answer:
            return 0 if answer.status == 200 else 1
    except (urllib.error.URLError, OSError) as error:
        sys.stderr.write(f"{address}: {error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
