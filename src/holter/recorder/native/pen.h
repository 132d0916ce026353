/* One thread's spans in mapped memory, for all that is compiled into the recorder's one library. Only the stable
   interface of Python 3.11 is used, so one file serves every Python since. */

#ifndef HOLTER_PEN_H
#define HOLTER_PEN_H

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <structmember.h>
#include <time.h>

#include "layout.h"

/* Headers from 3.12.1 on return these without a reference of its own, also to 3.11, where nothing is immortal and
   the missing reference ends the training some thousand steps later. Write `return Py_NewRef(Py_None);` instead. */
#undef Py_RETURN_NONE
#undef Py_RETURN_TRUE
#undef Py_RETURN_FALSE
#undef Py_RETURN_NOTIMPLEMENTED
#pragma GCC poison Py_RETURN_NONE Py_RETURN_TRUE Py_RETURN_FALSE Py_RETURN_NOTIMPLEMENTED

typedef struct {
    PyObject_HEAD
    PyObject *rare;
    long long top, offset, low_step, ranged, thread;
    Py_buffer page, space;
} Pen;

/* Volatile: the agent, and who looks at a process that was killed, read in the order of writing. */
typedef volatile int64_t Word;

static inline int64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static inline int64_t tail_of(long long phase, long long name, long long mode, long long step)
{
    return (int64_t)((uint64_t)step << STEP_SHIFT | (uint64_t)name << NAME_SHIFT | (uint64_t)mode << MODE_SHIFT |
                     (uint64_t)phase << PHASE_SHIFT);
}

static inline int write_record(Pen *pen, int64_t begin, int64_t duration, double value, int64_t tail)
{
    if (pen->offset < 0 || pen->offset + (long long)sizeof(Record) > pen->space.len)
        return 0;
    volatile Record *record = (volatile Record *)((char *)pen->space.buf + pen->offset);
    record->begin = begin;
    record->duration = duration;
    record->value = value;
    record->tail = tail;
    pen->offset += (long long)sizeof(Record);
    return 1;
}

static inline int open_span(Pen *pen, int64_t now, long long code)
{
    if (pen->top < HEAD_OPEN || pen->top + 2 > pen->page.len / 8)
        return 0;
    Word *span = (Word *)pen->page.buf + pen->top;
    span[0] = now;
    span[1] = code;
    pen->top += 2;
    return 1;
}

static inline int close_span(Pen *pen, int64_t now, long long code, double value, long long mode)
{
    if (pen->top < HEAD_OPEN + 2 || pen->top > pen->page.len / 8 || !(code & 255))
        return 0;
    Word *span = (Word *)pen->page.buf + pen->top - 2;
    if (span[1] != code)
        return 0;
    int64_t begin = span[0];
    if (!write_record(pen, begin, now - begin, value, tail_of(code & 255, code >> 8, mode, pen->low_step)))
        return 0;
    span[1] = 0;
    pen->top -= 2;
    return 1;
}

/* Call a method, with what `format` builds; NULL when it raised. */
static inline PyObject *ask(PyObject *whom, const char *method, PyObject *arguments)
{
    if (arguments == NULL)
        return NULL;
    PyObject *bound = PyObject_GetAttrString(whom, method);
    PyObject *result = bound == NULL ? NULL : PyObject_CallObject(bound, arguments);
    Py_XDECREF(bound);
    Py_DECREF(arguments);
    return result;
}

extern PyTypeObject *pen_type;

/* Publish a step; 0 when what is asked of Python then raised. */
int pen_settle_at(Pen *pen, long long step);

/* Setter and getter of memory that Python made. */
int set_memory(Py_buffer *memory, PyObject *view);
PyObject *get_memory(Py_buffer *memory);

/* -- the step of a process; steps.c */

typedef struct {
    PyObject_HEAD
    long long step, since;
    char manual_steps;
    PyObject *pens;
    Py_buffer wake;
} Steps;

extern PyTypeObject *steps_type;

/* Begin the next step at a moment; 0 when that raised. */
int begin_next_step(Steps *steps, int64_t now);

/* Put the types into the module; 0 when that raised. */
int add_steps(PyObject *module);
int add_usual(PyObject *module);

#endif
