"""Print the C header of the spool's layout, made from `holter.schema`.

python scripts/layout.py > src/holter/recorder/native/layout.h
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from holter.schema import record
from holter.schema.phases import Mode, Phase

C_TYPES = {"q": "int64_t", "d": "double"}
CONSTANTS = ("HEAD_STEP", "HEAD_OPEN", "COST_EVERY", *(f"{name.upper()}_SHIFT" for name in record.TAIL))


def header() -> str:
    """Return the text of the header."""
    whole = [(name, code) for name, code in record.FIELDS if name not in record.TAIL]
    constants = {name: getattr(record, name) for name in CONSTANTS}
    constants |= {"TRAIN": int(Mode.TRAIN), "LOSS": int(Phase.LOSS), "SCALAR": int(Phase.SCALAR)}
    fields = "".join(f"    {C_TYPES[code]} {name};\n" for name, code in whole)
    names = "".join(f"    {name} = {value},\n" for name, value in constants.items())
    return f"""/* Made by scripts/layout.py from holter.schema. Do not edit. */

#ifndef HOLTER_LAYOUT_H
#define HOLTER_LAYOUT_H

#include <stdint.h>

enum {{
{names}}};
#define STEP_MASK {record.STEP_MASK:#X}LL

typedef struct {{
{fields}    int64_t tail; /* {", ".join(record.TAIL)}; the last byte is not 0 in a complete record */
}} Record;
_Static_assert(sizeof(Record) == {record.RECORD_SIZE}, "the size of a record of the spool");

/* The value of an OPTIMIZER record that ends a step: ns from the step's begin to its own. */
static inline int64_t step_lead(int64_t step_begin, int64_t optimizer_begin)
{{
    return optimizer_begin - step_begin;
}}

#endif
"""


if __name__ == "__main__":
    print(header(), end="")
