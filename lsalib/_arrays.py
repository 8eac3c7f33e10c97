"""Names for the shapes of arguments and results. Internal.

The letters are those of the paper: C examples with d features, tokens of length D = d +
1, H heads. The tests check results as they are written here. Arguments also come as
lists, whole numbers and arrays of NumPy, hence “| Any”: ``_check`` reads them, and
refuses other shapes by the argument's name.
"""

from typing import Any

from jaxtyping import Array, Float

Scalar = Float[Array, ""]
PerToken = Float[Array, " D"]
Tokens = Float[Array, "D T"]
Lift = Float[Array, "D D D"]
HeadVectors = Float[Array, "H D"]
HeadMatrices = Float[Array, "H D D"]

Real = Scalar | Any
Vector = Float[Array, " d"] | Any
Features = Float[Array, "C d"] | Any
Labels = Float[Array, " C"] | Any
Gram = Float[Array, "D D"] | Any
PerHead = Float[Array, " H"] | Any
Rows = Float[Array, "m D"] | Any
Covariance = Float[Array, "d d"] | Any
Fourth = Float[Array, "d d d d"] | Any
