"""Prints what ``subcubic bench --profile`` has found beside the table."""

from __future__ import annotations

from typing import Any


def show_profiles(document: dict[str, Any]) -> None:
    """Lines for each row of a document that was measured with profiles."""
    from evaluate.device_model import device_model
    from evaluate.profile_text import profile_text

    model = None
    for word in (document["device"], *document["device"].lower().split()):
        try:
            model = device_model(word)
            break
        except ValueError:
            continue
    for row in document["rows"]:
        print(profile_text(row, model))
