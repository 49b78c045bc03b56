"""What a mutation is, and the files that list them."""

import tomllib
from dataclasses import dataclass, fields
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Mutation:
    """One broken place: `old` occurs once in `file`, and with `new` in its stead `test` fails.

    `id` is that of a requirement, or the number of a decision.
    """

    id: str
    breaks: str
    file: str
    old: str
    new: str
    test: str

    @property
    def test_without_parameters(self) -> str:
        return self.test.partition("[")[0]

    def applied_to(self, text: str) -> str:
        found = text.count(self.old)
        if found != 1:
            raise ValueError(f"{self.id}: the text to replace is {found} times in {self.file}, not once")
        return text.replace(self.old, self.new)


def read_mutations(folder: Path = FOLDER) -> list[Mutation]:
    names = {field.name for field in fields(Mutation)}
    mutations = []
    for path in sorted(folder.glob("*.toml")):
        for entry in tomllib.loads(path.read_text())["mutation"]:
            if set(entry) != names:
                raise ValueError(f"{path.name}: a mutation has {sorted(entry)}, and needs {sorted(names)}")
            mutations.append(Mutation(**entry))
    return mutations
