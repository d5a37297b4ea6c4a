"""The words of a text as the keyword stores index and ask them.

No stemming: sources mix languages, exact words are what this leg is for (forms of a word are the
vectors' part), and Elasticsearch's standard analyzer does the same. Chinese, Japanese and Korean
have no spaces to split at: their characters are indexed one by one and asked in overlapping
pairs, as Lucene's CJKAnalyzer does.
"""

import re
import unicodedata
from itertools import pairwise
from typing import Final

MAX_TERMS: Final = 64  # distinct terms of a question; what a longer one has more is left out

_CJK: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af"
_CJK_CHARACTER: Final = re.compile(f"[{_CJK}]")
_CJK_RUN: Final = re.compile(f"[{_CJK}]+")
_DIACRITIC: Final = re.compile("[\u0300-\u036f]")  # kana keep their voicing marks
_WORD: Final = re.compile(r"[^\W_]+")


def indexed(text: str) -> str:
    """The text as it is tokenized: folded, with spaces around each CJK character."""
    return _CJK_CHARACTER.sub(r" \g<0> ", fold(text))


def query_terms(text: str) -> list[str]:
    """Distinct terms of a question, in its order: words, and pairs of CJK characters.

    Any text is legal. A pair is two characters with a space between: a phrase of two tokens.
    """
    terms: dict[str, None] = {}
    for word in _WORD.findall(_CJK_RUN.sub(r" \g<0> ", fold(text))):
        for term in _pairs(word) if _CJK_RUN.fullmatch(word) else [word]:
            terms[term] = None
            if len(terms) == MAX_TERMS:
                return list(terms)
    return list(terms)


def document_terms(text: str) -> list[str]:
    """Every term that a question could name to find this text, with repetitions."""
    tokens = _WORD.findall(indexed(text))
    pairs = [
        f"{one} {two}"
        for one, two in pairwise(tokens)
        if _CJK_CHARACTER.fullmatch(one) and _CJK_CHARACTER.fullmatch(two)
    ]
    return tokens + pairs


def fold(text: str) -> str:
    """The text without case, compatibility forms, and the diacritics of alphabets."""
    letters = unicodedata.normalize("NFKD", text.casefold())
    return unicodedata.normalize("NFC", _DIACRITIC.sub("", letters))


def _pairs(run: str) -> list[str]:
    if len(run) == 1:
        return [run]
    return [f"{one} {two}" for one, two in pairwise(run)]
