/* The memory of `ThreadState` and `StepHooks`, whose Python twins are in step_hooks.py. */

#ifndef HOLTER_STEP_HOOKS_H
#define HOLTER_STEP_HOOKS_H

#include "span_writer.h"

typedef struct StepHooks StepHooks;

typedef struct {
    PyObject_HEAD
    PyObject *thread_spool, *begin, *end_of, *add, *fail;
    StepHooks *home; /* the hooks whose `last` this is */
    SpanWriter *writer;    /* the writer of the thread spool, where it is compiled */
    unsigned long thread;
    long long depth, fetching, optimizers, began, optimizer, forward_end, pass_began, call_code;
    char forward, backward, loading, moving, saving, waiting, scaling, seen, heard, asked, before_pass, before_next;
} ThreadState;

struct StepHooks {
    PyObject_HEAD
    ThreadState *last; /* borrowed: its deallocation clears it */
    StepCounter *session;
    PyObject *local, *logged_names, *tensor, *observed, *modes, *item, *losses;
    PyObject *before_step, *after_step, *boundary_calls, *pauses, *rate, *sole_type;
    PyObject *on_forward, *model_codes, *evaluated, *look, *scaled, *deferred, *before_end, *predicting;
    long long sole, sole_code, wake_at, inner_steps, rate_left, backward_code, loss_name, healthy_step, next_code;
    double healthy_loss;
    char backward_open, evaluates;
};

/* The calling thread's state; NULL for a thread without a compiled one, with or without an exception. */
ThreadState *current_state(StepHooks *hooks);

/* The writer to write with; NULL when that is not enough, or not possible. */
static inline SpanWriter *writer_of(ThreadState *state)
{
    return state == NULL || state->heard ? NULL : state->writer;
}

/* Put the type into the module; 0 when that raised. */
int add_thread_state(PyObject *module);

#endif
