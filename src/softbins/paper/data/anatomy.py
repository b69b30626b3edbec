"""The anatomy of a body phantom: its bones, its air spaces and its outline.

Places along the axis of the body run from 0 (top of the head) to 100 (soles). Other lengths are in
cm.
"""

from __future__ import annotations

from typing import NamedTuple


class Part(NamedTuple):
    """An ellipsoid of the body, which is a bone or a space filled with air.

    It reaches from `top` to `bottom` on the axis, has its center at (x, y) and the radii `width`
    and `depth`. From its middle to its ends the center moves by `lean_x` and `lean_y`. `hollow` is
    the share of the radius that is empty, as in the skull. `beads` is the number of pieces that a
    slice shows of a hollow part, as it does of the ribs. A `paired` part has a twin at -x.
    """

    top: float
    bottom: float
    x: float
    y: float
    width: float
    depth: float
    lean_x: float = 0.0
    lean_y: float = 0.0
    hollow: float = 0.0
    beads: int = 0
    paired: bool = False


BONES = (
    Part(0.5, 11, 0, 0, 7.2, 9, hollow=0.82),  # skull
    Part(6, 11, 3.5, 5, 1.8, 1.8, 0.5, -1, hollow=0.4, paired=True),  # face
    Part(9, 14, 3.6, 4, 1.1, 3.2, -1.0, 1.5, paired=True),  # jaw
    Part(10, 18.5, 0, -2, 1.6, 2.0, 0, -1.5),  # neck
    Part(17, 36.5, 0, -6.5, 2.2, 2.6, 0, -1),  # chest's spine
    Part(36, 46, 0, -5.0, 2.7, 3.0, 0, 1),  # loin's spine
    Part(45, 51, 0, -7.5, 4.5, 2.2, 0, -1),  # sacrum
    Part(17, 20, 8, 4, 8, 1.0, 1, -1, paired=True),  # collar bone
    Part(18, 27, 11, -8, 5, 1.0, -2, -0.5, paired=True),  # shoulder blade
    Part(17.5, 34.5, 19, 0, 1.9, 1.9, 4, 0, paired=True),  # upper arm
    Part(20, 31, 0, 8.5, 2.2, 0.9, 0, 1.5),  # breast bone
    Part(18, 39, 0, 0, 14, 10, hollow=0.86, beads=9),  # ribs
    Part(42, 50, 9.5, -2, 4.5, 1.5, -2, 4, hollow=0.3, paired=True),  # hip bone
    Part(48.5, 53.5, 5, 3, 3.0, 1.4, -2, -4, hollow=0.3, paired=True),  # seat
    Part(48.5, 52.5, 9.5, 0, 2.6, 2.6, 2, 0, paired=True),  # head of the thigh bone
    Part(51, 73, 10, 0.5, 1.7, 1.7, -3, -1, hollow=0.3, paired=True),  # thigh
    Part(70, 75, 7, -0.5, 4.0, 3.4, -0.3, 0, paired=True),  # knee
    Part(70.5, 73, 7, 4.5, 2.0, 1.0, paired=True),  # knee cap
    Part(73, 96, 6, 1.0, 1.6, 1.6, -1, -1, hollow=0.3, paired=True),  # shin
    Part(74, 96.5, 9, -1.2, 0.8, 0.8, -1, 0, paired=True),  # calf
    Part(94, 99.5, 5.5, 1, 2.6, 5.5, 0, 3, hollow=0.3, paired=True),  # foot
)
AIR_SPACES = (
    Part(5, 9.5, 0, 6, 2.2, 2.0, 0, 0.5),  # nose
    Part(7.5, 10, 3.6, 4, 1.4, 1.6, paired=True),  # sinuses
    Part(9, 14, 0, 2.5, 1.0, 1.4, 0, -1.5),  # throat
    Part(13, 26, 0, 1.0, 0.9, 0.9, 0, -2),  # windpipe
    Part(18.5, 35, 7, -0.5, 4.2, 6.0, 1.2, -0.8, paired=True),  # lungs
    Part(30, 37, 8, 0.5, 3.2, 4.5, 1.2, -2),  # left lung's base
    Part(34, 39, 5, 4, 3.2, 1.8, -2, 1),  # stomach
    Part(47, 52, 0, -4.5, 1.2, 1.2, 0, -2),  # rectum
)
# The outline of the body is an ellipse: a place on the axis, half the width, half the depth.
OUTLINE = (
    (0, 3, 3),
    (3, 7, 8.5),
    (7, 8, 10),
    (12, 7.5, 9.5),
    (15, 6.5, 6.5),
    (18, 15, 8.5),
    (22, 22, 10.5),
    (30, 20, 12),
    (38, 17, 11.5),
    (44, 17.5, 11),
    (50, 19, 11.5),
    (56, 18, 10),
    (65, 14.5, 8.5),
    (73, 11.5, 7),
    (80, 11.5, 6.5),
    (88, 9.5, 5.5),
    (95, 8.5, 7),
    (100, 8, 10),
)
