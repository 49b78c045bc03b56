"""What tools that make pictures share: asking an endpoint, reading its answer, telling what it is.

A request costs money, so it is sent once and never repeated, redirected or sent elsewhere. What comes
back is data from outside: it is read up to a limit, and is an image only if its own bytes say so.
`exchange`, `asking` and `downloads` load the HTTP library and are imported when a call is made, not before.
"""
