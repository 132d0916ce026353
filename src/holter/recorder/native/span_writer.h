/* Writes one thread's spans into mapped memory; shared by all compiled parts of the hot path. Only the stable ABI of
   Python 3.11 is used, so one file serves every later Python. */

#ifndef HOLTER_SPAN_WRITER_H
#define HOLTER_SPAN_WRITER_H

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
    PyObject *slow_path;
    long long top, offset, low_step, ranged, thread;
    Py_buffer page, space;
} SpanWriter;

/* Volatile: the agent, also one that reads after a kill, sees the words in the order of writing. */
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

static inline int write_record(SpanWriter *writer, int64_t begin, int64_t duration, double value, int64_t tail)
{
    if (writer->offset < 0 || writer->offset + (long long)sizeof(Record) > writer->space.len)
        return 0;
    volatile Record *record = (volatile Record *)((char *)writer->space.buf + writer->offset);
    record->begin = begin;
    record->duration = duration;
    record->value = value;
    record->tail = tail;
    writer->offset += (long long)sizeof(Record);
    return 1;
}

static inline int open_span(SpanWriter *writer, int64_t now, long long code)
{
    if (writer->top < HEAD_OPEN || writer->top + 2 > writer->page.len / 8)
        return 0;
    Word *span = (Word *)writer->page.buf + writer->top;
    span[0] = now;
    span[1] = code;
    writer->top += 2;
    return 1;
}

static inline int close_span(SpanWriter *writer, int64_t now, long long code, double value, long long mode)
{
    if (writer->top < HEAD_OPEN + 2 || writer->top > writer->page.len / 8 || !(code & 255))
        return 0;
    Word *span = (Word *)writer->page.buf + writer->top - 2;
    if (span[1] != code)
        return 0;
    int64_t begin = span[0];
    if (!write_record(writer, begin, now - begin, value, tail_of(code & 255, code >> 8, mode, writer->low_step)))
        return 0;
    span[1] = 0;
    writer->top -= 2;
    return 1;
}

/* Allocate an object of a type; NULL when that raised. */
static inline PyObject *allocate(PyTypeObject *type)
{
    return ((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
}

/* Free an object, as the last call of its deallocation. */
static inline void release(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* Call a method with a new tuple of arguments; NULL when it raised. */
static inline PyObject *call_method(PyObject *whom, const char *method, PyObject *arguments)
{
    if (arguments == NULL)
        return NULL;
    PyObject *bound = PyObject_GetAttrString(whom, method);
    PyObject *result = bound == NULL ? NULL : PyObject_CallObject(bound, arguments);
    Py_XDECREF(bound);
    Py_DECREF(arguments);
    return result;
}

extern PyTypeObject *writer_type;

/* Publish a step; 0 when the Python code that it calls raised. */
int writer_set_step_to(SpanWriter *writer, long long step);

/* Setter and getter of a buffer, whose offset in the object is the closure. */
int set_memory(PyObject *self, PyObject *view, void *offset);
PyObject *get_memory(PyObject *self, void *offset);

/* Entries of the tables of members and getters. */
#define MEMBER(name, type, owner, flags) {#name, type, offsetof(owner, name), flags, NULL},
#define BUFFER(name, owner) {#name, get_memory, set_memory, NULL, (void *)offsetof(owner, name)},

/* -- the step of a process; step_counter.c */

typedef struct {
    PyObject_HEAD
    long long step, since;
    char manual_steps;
    PyObject *writers;
    Py_buffer wake;
} StepCounter;

extern PyTypeObject *counter_type;

/* Begin the next step at a moment; 0 when that raised. */
int begin_next_step(StepCounter *counter, int64_t now);

/* Put the types into the module; 0 when that raised. */
int add_step_counter(PyObject *module);
int add_step_hooks(PyObject *module);

#endif
