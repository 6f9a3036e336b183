"""The mean of the local model's passage vectors, a constant like the weights.

It is the mean over `portal.gateway.sample`, rounded to float16, written down so that every installation
centres its vectors alike. e5 vectors point into a narrow cone; this vector has a length of 0.89.
"""

from __future__ import annotations

import base64

import numpy as np

from portal.gateway.local.weights import Floats

_FLOAT16 = (
    "WyimpNWmlKrVLPykJaExJ54tviKvKCggaSyRp4mqSymqK4qoXqd9q7EmRZ+pqBIqXCziKr+pSiQ+KV2t46kkqpEpzKuiKqwnMKo5"
    "q24p2as3ppEouSi6LFsp9CpBqo8pV6h4p0aoaCqjIlIpGCULqi+qUa2MrPgphSxMoSIlSyZPLekqxyoSKsOpppzIqn8r/h9nqc8d"
    "XiUcKnOqliDRqU2sUqkHpyYnOKuIKjwqw6qpK/2juCv7Kjamo6pUq6eqLKn+KDcs+aTMK9SoNCTWrKepBStqKdyrgiu5qsOqtCjb"
    "Kdko3aufqLKjbKvdJ1qpdigXqf+oe6n+qlWpBSonKH+h3JWSJrQm6R2tKIYnki0Rq0QZ16XNpGKo+ik5p4Aq0ip/Kn4sbal4LCOq"
    "DiguqLUqdieQKk+qiamBqXEqcSplqoSqnqwep4WspKj/KNMro6zdpX6nTSY7pEEoBh3VKV2oIyIOLZcqeqMep7qo36mWrF6lhKi8"
    "J1oikKI6pbUoCqhXqamqCSctq+wqAyr9KG4gr6gYKTUociRjoj6sySr2qLMqgynJrHCrbCt1qMSgUoxUK8qpYSVkKYKfAiatrQaq"
    "xCoxKkOq0aiYKFGpe6jAqlysfKqXqyYgFymNKgWsh6ODqSMlpKw2K5ankagOI1Wf1ShJKK6rRKkkrH6lOCjIKyQtQKlPJncmNqc0"
    "Lc0odirJJKSrxaQUrKaoYqs9J2Yq9KqbrOGoVCbQLIqo36eAKJMoVih5KQIrxaN4pWwq6aq1qaym1qjPKc+ouyrTJeKV6ywgqs8o"
    "9aYMqVYpnibgrTkodR/aJZ8lJylxLCgpQ6qEpgspLiykHWMooaj3qpupLKkUpY2phStiKdKoham2KxMiaigdqIupOycnqgOirKkQ"
    "Kvyq+an7J8ws06VEKyKmRayNKd+mY6U8JSgqgK3TJWYp1qnuKD6qbqpgKiEpVKzVpWApiSnTKx8oX6PbIVknk6y0Kx8qLapWni2k"
    "v6vuqu4qGqqaqyIpsixOKYYr"
)


def mean_vector() -> Floats:
    """What to subtract to centre a vector of the local model: float32 of shape (384,), not of length 1."""
    return np.frombuffer(base64.b64decode(_FLOAT16), "<f2").astype(np.float32)
