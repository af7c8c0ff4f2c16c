"""The confusion table as text."""

from __future__ import annotations

from tests.causes.account import Figures


def drawn(figures: Figures) -> str:
    """One line for each true cause: how often, and what was stated. In brackets: the wire cannot decide it."""
    lines = [f"{'true cause':32} {'lines':>6}  stated"]
    for cause, stated in sorted(figures.table.items()):
        told = ", ".join(f"{word} {count}" for word, count in stated.most_common())
        lines.append(f"{cause:32} {sum(stated.values()):6}  {told}")
    share = 100 * figures.right / max(1, figures.decidable)
    lines.append(
        f"{figures.losses} losses; {figures.decidable} the wire can decide, of which {figures.right} right"
        f" ({share:.2f} %); {figures.wrong} wrong where certainty is claimed; {figures.figures} wrong figures"
    )
    return "\n".join(lines)
