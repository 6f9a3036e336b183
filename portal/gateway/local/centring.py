"""The local model's centring: its mean passage vector and its language axis, constants like the weights.

Both are measured over `portal.gateway.sample`, rounded to float16, and written down so that every installation
centres its vectors alike. e5 vectors point into a narrow cone; the mean has a length of 0.89. The axis is the
difference of the English and the Chinese sentences' means, which is 0.44 long, at a length of 1.
"""

from __future__ import annotations

import base64

import numpy as np

from portal.gateway.local.weights import Floats

_MEAN = (
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
_AXIS = (
    "Y6mlpUUnRaUZpVysN6IWo3mswCp7KAwvpqrdqjkqRSiTHjMq36xtplWmrKp7LcAjG6YpKrEqfaZQoraouqVoosmiW6mvqmCrPBV0qSwp"
    "viaCIDcoIqmbqqwkNaloqq+o1i18qN2q7ChLqeyooSvfKT6uFCEBJoKsOZb4rDih+xx1qSMr7ae8I72q9Rlcrv+q0Kp6ITioJzCUqbil"
    "A63UKL8tGCAekcsnhim3KXklXJ89E2es0KAAqVOrNyCSIlklyKnfJ4cMlq1Npb8nyy+7IKArdan3qBAayCyZqESczBZ+KAWjCSRzHW+s"
    "YiwZq7MttSxBLGmqWK3CIJAts6qIJQMw9yUqKVamxB3HJqQhYiSkImOsWChiKvGmcCd4Ku8cXyZ9KdQlJyulKyongCoTLf6rRal/qj6k"
    "RK7+msWT3Cc2JoMpACWrKnknZS6KKfoaeCRiqyys7q0vEwws1KVKrUGqvy16rFGmTRIZolAlTqBEHKemcaglJQ4hp6m9GGCouCr/onyn"
    "iSw6JyWfAyhvqsKVGCyUKmMsQanNJWYpYShjKWMnyikHqSomNyBELZepcSFgoMWfAyX2Kukhiix3KEev36c4KvSlHieDJw8rk6i+qfEr"
    "kiiVMG+qOKVwpRMuWK63LMUtXqLCrAosAqBPrf4kPqrgGFQqnRO7KU6WhaQ4qTSpwqCIprKhuapsGEGp7KeELAAkYqQxJACs2qqyKduv"
    "LKGJrNykm6z8re0pgJwHpuwdCSLdJjGe8yoUJ+Eoxazbp4mpirBFFqIsTilpJ5AlaJ/SMNEhIxtNrcKmbS9TLUGtg53KLy6q8anwrnyn"
    "6qkSKvQuniwOpz6hMyU5rdecCaqUKGgYKK1GLKslYSZPrlimmyzFIY+d05m0ql8oNy4/H3AdD6UvpCywTq1hpNsdKKIGLlGmlanaqVsw"
    "p63jJEesIKFgpVUoDCVVq7ilTChvKZSoLaR6pqwrFKwaKT+rmyhKo28kQyzLK7gq0KSDLv4nCKoYp1YpYqgOqMEd"
)


def mean_vector() -> Floats:
    """What to subtract to centre a vector of the local model: float32 of shape (384,), not of length 1."""
    return np.frombuffer(base64.b64decode(_MEAN), "<f2").astype(np.float32)


def language_axis() -> Floats:
    """The direction from Chinese to English texts of the local model: float32 of shape (384,), of length 1."""
    axis = np.frombuffer(base64.b64decode(_AXIS), "<f2").astype(np.float32)
    return np.asarray(axis / np.linalg.norm(axis), dtype=np.float32)
