"""A good example of each widget and of an answer to it, for every test that needs one."""

CASES = {
    "form": (
        {
            "type": "form",
            "title": "Release",
            "message": "Fill in what the release needs.",
            "fields": [
                {"name": "version", "label": "Version", "required": True, "max_length": 20},
                {"name": "notes", "type": "multiline"},
                {"name": "share", "type": "number", "min": 0, "max": 1, "default": 0.5},
                {"name": "retries", "type": "integer", "min": 0, "max": 5},
                {"name": "public", "type": "boolean", "default": False},
                {"name": "day", "type": "date"},
                {"name": "channel", "type": "select", "options": [{"value": "beta"}, {"value": "stable"}]},
                {
                    "name": "systems",
                    "type": "multi_select",
                    "options": [{"value": "linux", "label": "Linux"}, {"value": "mac"}],
                    "default": ["linux"],
                },
            ],
        },
        {"values": {"version": "1.2", "retries": 3, "day": "2026-12-31", "channel": "beta"}},
    ),
    "selection": (
        {
            "type": "selection",
            "message": "Which ones?",
            "options": [{"value": "a", "label": "First"}, {"value": "b", "description": "the second"}],
            "multiple": True,
            "min_choices": 1,
            "max_choices": 3,
            "allow_other": True,
        },
        {"choices": ["a"], "other": "something else"},
    ),
    "confirmation": (
        {"type": "confirmation", "message": "Delete it?", "confirm_label": "Delete", "dangerous": True},
        {"confirmed": False},
    ),
    "plan_review": (
        {
            "type": "plan_review",
            "message": "Is this right?",
            "plan": "# Plan\nDo it.",
            "steps": ["one", "two"],
        },
        {"decision": "revise", "comment": "smaller steps"},
    ),
    "feedback": (
        {"type": "feedback", "message": "How was it?", "rating_max": 5, "comment": "optional"},
        {"rating": 4, "comment": "good"},
    ),
    "action_selection": (
        {
            "type": "action_selection",
            "message": "What next?",
            "actions": [{"id": "retry", "label": "Try again"}, {"id": "drop", "style": "danger"}],
        },
        {"action": "retry", "comment": "once"},
    ),
}
