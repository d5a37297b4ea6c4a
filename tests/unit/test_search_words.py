"""The words of texts and questions."""

from indexers.words import MAX_TERMS, document_terms, indexed, query_terms


def test_a_question_is_its_distinct_folded_words() -> None:
    """Words lose case and diacritics and come once, in their order."""
    assert query_terms("Café CAFE, Straße; ﬁle_name") == ["cafe", "strasse", "file", "name"]


def test_cjk_is_asked_in_pairs() -> None:
    """A run of CJK characters is asked in overlapping pairs; a single one alone."""
    assert query_terms("東京都 abc 水") == ["東 京", "京 都", "abc", "水"]


def test_kana_keep_their_voicing() -> None:
    """Folding diacritics of alphabets leaves Japanese as it is."""
    assert indexed("がか").split() == ["が", "か"]


def test_every_term_of_a_text_finds_it() -> None:
    """What a question makes of a text is among what the text is found by."""
    text = "Im Café: Größe 42, 私は東京都に住んでいます"
    assert set(query_terms(text)) <= set(document_terms(text))


def test_a_question_has_a_bounded_number_of_terms() -> None:
    """Of an endless question the first terms are asked."""
    terms = query_terms(" ".join(f"word{number}" for number in range(5_000)))
    assert len(terms) == MAX_TERMS
    assert terms[0] == "word0"
