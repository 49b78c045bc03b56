"""Shared by image tools: requests to an endpoint, its responses, and image formats.

A request costs money, so it is sent once and never repeated, redirected or sent elsewhere. The response is
untrusted: it is read up to a limit, and is an image only if its own bytes say so. `image_client` loads the
HTTP library and is imported when a call is made.
"""
