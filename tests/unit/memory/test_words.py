"""Cutting text into words: one way for notes and questions, whatever script they are in."""

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.memory.tokenizer import MAX_WORD_CHARS, TokenKind, fold, query_words, split_chunks, tokenize
from tests.harness.case_tables import each_row


def found_by(question: str, note: str) -> bool:
    """Whether a word of the question, and not one of the common ones, is among the note's."""
    asked = {word.text for word in query_words(question, 50) if word.weight >= 0.2}
    return bool(asked & set(tokenize(note)))


@each_row(
    ("written", "folded"),
    [
        ("Straße", "strasse"),
        ("İSTANBUL ılık", "istanbul ilik"),
        ("Ørsted Łódź Æther œuvre", "orsted lodz aether oeuvre"),
        ("naïve cafe\u0301", "naive cafe"),
        ("ＡＢＣ１２３", "abc123"),
        ("ﬁnanzen", "finanzen"),
        ("Ёлка", "елка"),
        ("Ὀδυσσεύς", "οδυσσευσ"),
        ("ｶﾞｲﾄﾞ", "ガイド"),
        ("كِتَابٌ", "كتاب"),
        ("שָׁלוֹם", "שלום"),
        ("हिन्दी", "हिन्दी"),
        ("한국어", "한국어"),
        ("がくせい", "がくせい"),
    ],
)
def test_forms_of_the_same_letters_are_one(written, folded):
    assert fold(written) == folded


@each_row(
    ("name", "words"),
    [
        ("handle_message", {"handle", "message", "handlemessage"}),
        ("handleMessage", {"handle", "message", "handlemessage"}),
        ("AgentLoop", {"agent", "loop", "agentloop"}),
        ("HTTPServer", {"http", "server", "httpserver"}),
        ("TOOL_ALLOWED_ROOTS", {"tool", "allowed", "roots", "toolallowedroots"}),
        ("openat2", {"openat2"}),
        ("follow-up", {"follow", "up", "followup"}),
        ("__init__", {"init"}),
        ("os.path.join", {"os", "path", "join", "ospathjoin"}),
        ("src/memory/notes.py", {"src", "memory", "notes", "py", "srcmemorynotespy"}),
        ("C++", {"c", "cplusplus"}),
        ("c#", {"c", "csharp"}),
        ("l'eau", {"eau", "leau"}),
        ("2026-11-15", {"2026", "11", "15", "20261115"}),
    ],
)
def test_names_are_taken_apart_and_kept_whole(name, words):
    assert set(tokenize(name)) == words


@pytest.mark.parametrize(
    ("question", "note"),
    [
        ("咖啡", "我们去的咖啡店"),
        ("店", "我们去的咖啡店"),
        ("データベース", "古いデータベースを消す"),
        ("設定", "サーバーの設定変更"),
        ("กาแฟ", "ร้านกาแฟอร่อย"),
        ("서울", "서울에서 만났다"),
        ("책", "책을 읽었다"),
        ("ကော်ဖီ", "ကော်ဖီဆိုင်"),
        ("កាហ្វេ", "ហាងកាហ្វេ"),
        ("第3章", "请看第3章"),
        ("iPhone用户", "老的iPhone用户"),
    ],
)
def test_scripts_without_spaces_are_found_by_any_part(question, note):
    assert found_by(question, note)


def test_words_of_other_notes_are_not_found():
    assert not found_by("咖啡", "我们去的书店")
    assert not found_by("กาแฟ", "ร้านหนังสือ")


def test_what_a_language_uses_all_the_time_weighs_little():
    weights = {word.text: word.weight for word in query_words("what did we say about the budget", 50)}
    assert weights["budget"] == 1.0
    assert max(weights[word] for word in ("what", "did", "we", "about", "the")) < 0.2


def test_a_word_that_is_common_in_another_language_counts():
    weights = {word.text: word.weight for word in query_words("what did we say about AI", 50)}
    assert weights["ai"] == 1.0


def test_common_words_alone_count_fully():
    assert {word.weight for word in query_words("who are you", 50)} == {1.0}


@pytest.mark.parametrize("text", ["", " ", "?!*\"'()", "\x00", "🎉 👩‍💻", "---", "___", "\ud800"])
def test_what_has_no_word_gives_none(text):
    assert tokenize(text) == []
    assert query_words(text, 50) == []


def test_emoji_do_not_hide_the_words_beside_them():
    assert tokenize("🎉party🎉 👩‍💻code") == ["party", "code"]


@given(st.text())
def test_any_text_gives_words_a_database_can_take(text):
    for word in tokenize(text):
        assert 0 < len(word) <= MAX_WORD_CHARS
        assert not set(word) & set(" \"'&|!():*<>\\\0-§")
        word.encode()


@given(st.text(alphabet=st.characters(codec="utf-8")))
def test_a_text_is_found_by_its_own_words(text):
    asked = [word.text for word in query_words(text, 10_000)]
    assert set(asked) == set(tokenize(text))


@given(st.text())
def test_chunks_lie_in_the_text_and_hold_its_words(text):
    found = list(split_chunks(text))
    assert [word for chunk in found for word in chunk.words] == tokenize(text)
    assert all(0 <= one.start < one.end <= other.start for one, other in pairwise(found))


@pytest.mark.parametrize("piece", ["a", "aB", "a_", "a.", "é", "我", "-a", "😀", "\u0301", "a++"])
def test_no_text_takes_long(piece):
    began = time.process_time()
    tokenize(piece * 200_000)
    assert time.process_time() - began < 5


def test_kinds_tell_words_from_pairs():
    kinds = {word.text: word.kind for word in query_words("サーバーの設定 hello", 50)}
    assert kinds["サーバー"] is TokenKind.word
    assert kinds["設定"] is TokenKind.pair
    assert kinds["設"] is TokenKind.character
    assert kinds["hello"] is TokenKind.word
