"""A reader of the grammar that an emitted straight-line program states, which is all it knows of the project."""

import re
from fractions import Fraction

TERM = re.compile(r"(-?)(?:(\d+(?:/\d+)?)\*)?([a-z]\d+(?:_\d+)?)")
NAME = re.compile(r"[a-z]\d+(?:_\d+)?")


class Reader:
    """Names and their values, and how many statements of each kind there were."""

    def __init__(self, inputs: dict, modulus: int = 0) -> None:
        self.values, self.modulus = dict(inputs), modulus
        self.additions = self.products = 0

    def run(self, text: str) -> dict:
        for line in text.splitlines():
            if line and not line.startswith("#"):
                self._statement(line)
        return self.values

    def _statement(self, line: str) -> None:
        name, equals, rest = line.split(" ", 2)
        assert equals == "=" and NAME.fullmatch(name) and name not in self.values, line
        words = rest.split(" ")
        if len(words) == 3 and words[1] == "*":
            assert name[0] == "p"
            self.products += 1
            value = self.values[words[0]] * self.values[words[2]]
        elif len(words) == 3:
            self.additions += 1
            sign = {"+": 1, "-": -1}[words[1]]
            value = self._term(words[0]) + sign * self._term(words[2])
        else:
            (word,) = words
            value = self._term(word)
        self.values[name] = value % self.modulus if self.modulus else value

    def _term(self, word: str):
        sign, number, name = TERM.fullmatch(word).groups()
        return (-1 if sign else 1) * Fraction(number or 1) * self.values[name]
