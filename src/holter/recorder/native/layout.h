/* Made by scripts/layout.py from holter.schema. Do not edit. */

#ifndef HOLTER_LAYOUT_H
#define HOLTER_LAYOUT_H

#include <stdint.h>

enum {
    HEAD_STEP = 2,
    HEAD_OPEN = 16,
    COST_EVERY = 16,
    STEP_SHIFT = 0,
    NAME_SHIFT = 32,
    MODE_SHIFT = 48,
    PHASE_SHIFT = 56,
    TRAIN = 1,
    LOSS = 5,
    SCALAR = 17,
};
#define STEP_MASK 0XFFFFFFFFLL

typedef struct {
    int64_t begin;
    int64_t duration;
    double value;
    int64_t tail; /* step, name, mode, phase; the last byte is not 0 in a complete record */
} Record;
_Static_assert(sizeof(Record) == 32, "the size of a record of the spool");

/* The value of an OPTIMIZER record that ends a step: ns from the step's begin to its own. */
static inline int64_t step_lead(int64_t step_begin, int64_t optimizer_begin)
{
    return optimizer_begin - step_begin;
}

#endif
