"""Small workflows, and what a model says in their steps."""

import json

ONE = """\
description = "One step"
start = "only"
[nodes.only]
kind = "step"
[nodes.end]
kind = "end"
[[edges]]
from = "only"
to = "end"
"""
TWO = """\
description = "Two steps"
start = "first"
[nodes.first]
kind = "step"
[nodes.second]
kind = "step"
[nodes.end]
kind = "end"
[[edges]]
from = "first"
to = "second"
[[edges]]
from = "second"
to = "end"
"""
CHOICE = """\
description = "A choice"
start = "choose"
[nodes.choose]
kind = "step"
[nodes.left]
kind = "end"
[nodes.right]
kind = "end"
[[edges]]
from = "choose"
to = "left"
label = "left"
[[edges]]
from = "choose"
to = "right"
label = "right"
"""
SIMPLE = "msg:done\n"
ASKING = 'call:ask_user {"type": "confirmation", "message": "Shall I?"}\n' + "msg:done\n"


def said(**fields: object) -> str:
    return f"call:complete_step {json.dumps({'summary': 'said', **fields})}\n"
