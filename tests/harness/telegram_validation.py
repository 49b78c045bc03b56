"""What Telegram takes and what it refuses: names of parameters, sizes of texts, entities and buttons."""

from typing import Any

MAX_UNITS = 4096

ENTITY_TYPES = {"bold", "italic", "strikethrough", "code", "pre", "text_link", "blockquote", "underline"}
PARAMETERS = {
    "getMe": set(),
    "getUpdates": {"offset", "timeout", "limit", "allowed_updates"},
    "setMyCommands": {"commands", "scope", "language_code"},
    "sendMessage": {
        *("chat_id", "text", "entities", "reply_markup", "reply_parameters", "link_preview_options"),
    },
    "editMessageText": {
        *("chat_id", "message_id", "text", "entities", "reply_markup", "link_preview_options"),
    },
    "deleteMessage": {"chat_id", "message_id"},
    "answerCallbackQuery": {"callback_query_id", "text", "show_alert"},
    "sendChatAction": {"chat_id", "action"},
}


def refusal(status: int, description: str) -> dict[str, Any]:
    return {"ok": False, "error_code": status, "description": description}


class BotApiRefusal(Exception):
    def __init__(self, description: str, status: int = 400) -> None:
        super().__init__(description)
        self.status = status


def wide(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def check_text(text: str, entities: list[dict[str, Any]], faults: list[str]) -> None:
    """What no bot should send at all is added to the faults."""
    if not text.strip():
        faults.append("an empty message")
        raise BotApiRefusal("message text is empty")
    if wide(text) > MAX_UNITS:
        faults.append(f"a message of {wide(text)} units")
        raise BotApiRefusal("message is too long")
    for entity in entities:
        end = entity["offset"] + entity["length"]
        if entity["type"] not in ENTITY_TYPES or entity["offset"] < 0 or entity["length"] <= 0:
            faults.append(f"an odd entity: {entity}")
            raise BotApiRefusal("ENTITY_BOUNDS_INVALID")
        if end > wide(text):
            faults.append(f"an entity beyond the text: {entity}")
            raise BotApiRefusal("ENTITY_BOUNDS_INVALID")
        if entity["type"] == "text_link" and not entity.get("url"):
            raise BotApiRefusal("ENTITY_URL_INVALID")


def check_markup(markup: dict[str, Any] | None, faults: list[str]) -> None:
    rows = (markup or {}).get("inline_keyboard", [])
    buttons = [button for row in rows for button in row]
    if len(buttons) > 100:
        raise BotApiRefusal("reply markup is too long")
    for button in buttons:
        data = button.get("callback_data", "")
        if not button["text"].strip() or not 1 <= len(data.encode()) <= 64:
            faults.append(f"an odd button: {button}")
            raise BotApiRefusal("BUTTON_DATA_INVALID")
