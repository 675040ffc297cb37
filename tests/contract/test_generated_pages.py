"""Pages that are generated must say what the code says."""

from __future__ import annotations

from sandbox.fidelity import PAGE, page


def test_the_fidelity_page_is_that_of_the_code() -> None:
    """Run `python -m sandbox.fidelity` when this fails."""
    assert PAGE.read_text(encoding="utf-8") == page()
