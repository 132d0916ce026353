/* What `At` and `Usual` of usual.py keep, compiled. */

#ifndef HOLTER_USUAL_H
#define HOLTER_USUAL_H

#include "pen.h"

typedef struct Usual Usual;

typedef struct {
    PyObject_HEAD
    PyObject *marks, *begin, *end_of, *add, *fail;
    Usual *home; /* whose last thread this is, while it is */
    Pen *pen;    /* that of the marks, where it is one of ours */
    unsigned long thread;
    long long depth, fetching, optimizers, began, optimizer, forward_end, pass_began, call_code;
    char forward, backward, loading, moving, saving, waiting, scaling, seen, heard, asked, before_pass, before_next;
} At;

struct Usual {
    PyObject_HEAD
    At *last; /* borrowed: it says so when it goes */
    Steps *session;
    PyObject *local, *told, *tensor, *observed, *modes, *item, *losses;
    PyObject *before_step, *after_step, *boundary_calls, *pauses, *rate, *sole_type;
    PyObject *on_forward, *model_codes, *evaluated, *look, *scaled, *deferred, *before_end, *predicting;
    long long sole, sole_code, wake_at, inner_steps, rate_left, backward_code, loss_name, healthy_step, next_code;
    double healthy_loss;
    char backward_open, evaluates;
};

/* The calling thread's state; NULL when there is none of ours, and then an exception or none. */
At *here(Usual *usual);

/* The pen to write with; NULL when that is not enough, or not possible. */
static inline Pen *pen_of(At *at)
{
    return at == NULL || at->heard ? NULL : at->pen;
}

/* Put the type into the module; 0 when that raised. */
int add_at(PyObject *module);

#endif
