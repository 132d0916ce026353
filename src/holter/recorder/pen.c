/* `hotpath.Pen` once more, compiled: what a mark costs a training falls to a fourth. hotpath.py tells what each
   method means; all that is rare is asked of Python, as there. Only the stable interface of Python 3.11 is used,
   so one file serves every Python since. Nothing here may fail but by an exception, and none leaves a mark. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <structmember.h>
#include <time.h>

/* Raised with every change that hotpath.py must know of. */
#define INTERFACE 1

/* holter.schema.record and holter.schema.phases */
enum { HEAD_STEP = 2, HEAD_OPEN = 16, TRAIN = 1, COST_EVERY = 15 };
typedef struct {
    int64_t begin, duration;
    double value;
    int64_t tail; /* step, name, mode, phase: the last byte, written last, says that a record is whole */
} Record;
#define LOW 0xFFFFFFFFLL

typedef struct {
    PyObject_HEAD
    PyObject *rare;
    long long top, offset, low_step, ranged, thread;
    Py_buffer page, space;
} Pen;

/* Volatile: the agent, and who looks at a process that was killed, read in the order of writing. */
typedef volatile int64_t Word;

static int64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static int64_t tail_of(long long phase, long long name, long long mode, long long step)
{
    return (int64_t)((uint64_t)step | (uint64_t)name << 32 | (uint64_t)mode << 48 | (uint64_t)phase << 56);
}

static int write_record(Pen *pen, int64_t begin, int64_t duration, double value, int64_t tail)
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

static int open_span(Pen *pen, int64_t now, long long code)
{
    if (pen->top < HEAD_OPEN || pen->top + 2 > pen->page.len / 8)
        return 0;
    Word *span = (Word *)pen->page.buf + pen->top;
    span[0] = now;
    span[1] = code;
    pen->top += 2;
    return 1;
}

static int close_span(Pen *pen, int64_t now, long long code, double value, long long mode)
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
static PyObject *ask(PyObject *whom, const char *method, PyObject *arguments)
{
    if (arguments == NULL)
        return NULL;
    PyObject *bound = PyObject_GetAttrString(whom, method);
    PyObject *result = bound == NULL ? NULL : PyObject_CallObject(bound, arguments);
    Py_XDECREF(bound);
    Py_DECREF(arguments);
    return result;
}

static PyObject *moment_after(PyObject *result, int64_t now)
{
    if (result == NULL)
        return NULL;
    Py_DECREF(result);
    return PyLong_FromLongLong(now);
}

static PyObject *pen_begin(PyObject *self, PyObject *argument)
{
    Pen *pen = (Pen *)self;
    int64_t now = clock_ns();
    long long code = PyLong_AsLongLong(argument);
    if (!(code == -1 && PyErr_Occurred()) && open_span(pen, now, code))
        return PyLong_FromLongLong(now);
    PyErr_Clear();
    return moment_after(ask(pen->rare, "begin_slow", Py_BuildValue("(LO)", (long long)now, argument)), now);
}

static PyObject *pen_end_of(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    Pen *pen = (Pen *)self;
    int64_t now = clock_ns();
    if (count < 1 || count > 3) {
        PyErr_SetString(PyExc_TypeError, "end_of takes a code, a value and a mode");
        return NULL;
    }
    long long code = PyLong_AsLongLong(given[0]);
    double value = count > 1 ? PyFloat_AsDouble(given[1]) : Py_NAN;
    long long mode = count > 2 && given[2] != Py_None ? PyLong_AsLongLong(given[2]) : TRAIN;
    if (!PyErr_Occurred() && close_span(pen, now, code, value, mode))
        return PyLong_FromLongLong(now);
    PyErr_Clear();
    PyObject *rest = count == 1   ? Py_BuildValue("(LO)", (long long)now, given[0])
                     : count == 2 ? Py_BuildValue("(LOO)", (long long)now, given[0], given[1])
                                  : Py_BuildValue("(LOOO)", (long long)now, given[0], given[1], given[2]);
    return moment_after(ask(pen->rare, "end_slow", rest), now);
}

static PyObject *pen_add(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    Pen *pen = (Pen *)self;
    if (count >= 4 && count <= 7) {
        long long phase = PyLong_AsLongLong(given[0]), name = PyLong_AsLongLong(given[1]);
        long long begin = PyLong_AsLongLong(given[2]), duration = PyLong_AsLongLong(given[3]);
        double value = count > 4 ? PyFloat_AsDouble(given[4]) : Py_NAN;
        long long step = count > 5 && given[5] != Py_None ? PyLong_AsLongLong(given[5]) & LOW : pen->low_step;
        long long mode = count > 6 ? PyLong_AsLongLong(given[6]) : TRAIN;
        if (!PyErr_Occurred() && write_record(pen, begin, duration, value, tail_of(phase, name, mode, step)))
            Py_RETURN_NONE;
        PyErr_Clear();
    }
    PyObject *rest = PyTuple_New(count);
    for (Py_ssize_t at = 0; rest != NULL && at < count; at++) {
        Py_INCREF(given[at]);
        PyTuple_SetItem(rest, at, given[at]);
    }
    return ask(pen->rare, "add_slow", rest);
}

static PyObject *pen_settle(PyObject *self, PyObject *argument)
{
    Pen *pen = (Pen *)self;
    long long step = PyLong_AsLongLong(argument);
    if (step == -1 && PyErr_Occurred())
        return NULL;
    pen->low_step = step & LOW;
    if (pen->page.len <= HEAD_STEP * 8)
        Py_RETURN_NONE;
    ((Word *)pen->page.buf)[HEAD_STEP] = step;
    if ((step & COST_EVERY) != 1)
        Py_RETURN_NONE;
    return ask(pen->rare, "cost", PyTuple_New(0));
}

/* -- a range: `__enter__` and `__exit__` for one code */

typedef struct {
    PyObject_HEAD
    PyObject *pen, *range;
    long long code;
} Stretch;

static int here(Stretch *stretch)
{
    return (unsigned long)((Pen *)stretch->pen)->thread == PyThread_get_thread_ident();
}

static PyObject *stretch_enter(PyObject *self, PyObject *unused)
{
    Stretch *stretch = (Stretch *)self;
    int64_t now = clock_ns();
    if (!here(stretch))
        return ask(stretch->range, "enter", PyTuple_New(0));
    if (!open_span((Pen *)stretch->pen, now, stretch->code)) {
        PyObject *rest = Py_BuildValue("(LL)", (long long)now, stretch->code);
        PyObject *done = ask(((Pen *)stretch->pen)->rare, "begin_slow", rest);
        if (done == NULL)
            return NULL;
        Py_DECREF(done);
    }
    Py_INCREF(stretch->range);
    return stretch->range;
}

static PyObject *stretch_leave(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    Stretch *stretch = (Stretch *)self;
    int64_t now = clock_ns();
    if (count != 3) {
        PyErr_SetString(PyExc_TypeError, "__exit__ takes a class, an exception and a traceback");
        return NULL;
    }
    if (given[1] == Py_None && here(stretch) &&
        close_span((Pen *)stretch->pen, now, stretch->code, Py_NAN, TRAIN)) {
        ((Pen *)stretch->pen)->ranged++;
        Py_RETURN_NONE;
    }
    return ask(stretch->range, "leave", Py_BuildValue("(OOO)", given[0], given[1], given[2]));
}

static int stretch_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(((Stretch *)self)->pen);
    Py_VISIT(((Stretch *)self)->range);
    Py_VISIT(Py_TYPE(self));
    return 0;
}

static void stretch_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    Py_XDECREF(((Stretch *)self)->pen);
    Py_XDECREF(((Stretch *)self)->range);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyMethodDef stretch_methods[] = {
    {"enter", stretch_enter, METH_NOARGS, NULL},
    {"leave", (PyCFunction)(void (*)(void))stretch_leave, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL}};
/* No tp_clear: a cycle through a stretch passes the slots of its range, which are cleared. */
static PyType_Slot stretch_slots[] = {{Py_tp_methods, stretch_methods},
                                      {Py_tp_traverse, stretch_traverse},
                                      {Py_tp_dealloc, stretch_dealloc},
                                      {0, NULL}};
static PyType_Spec stretch_spec = {"holter.recorder._pen.Stretch", sizeof(Stretch), 0,
                                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, stretch_slots};
static PyTypeObject *stretch_type;

static PyObject *pen_ranges(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    long long code = count == 2 ? PyLong_AsLongLong(given[0]) : -1;
    if (code < 0) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "ranges takes a code and a range");
        return NULL;
    }
    Stretch *stretch = PyObject_GC_New(Stretch, stretch_type);
    if (stretch == NULL)
        return NULL;
    Py_INCREF(self);
    Py_INCREF(given[1]);
    stretch->pen = self;
    stretch->range = given[1];
    stretch->code = code;
    PyObject_GC_Track((PyObject *)stretch);
    PyObject *enter = PyObject_GetAttrString((PyObject *)stretch, "enter");
    PyObject *leave = enter == NULL ? NULL : PyObject_GetAttrString((PyObject *)stretch, "leave");
    Py_DECREF(stretch);
    PyObject *both = leave == NULL ? NULL : PyTuple_Pack(2, enter, leave);
    Py_XDECREF(enter);
    Py_XDECREF(leave);
    return both;
}

/* -- the type */

static PyObject *pen_new(PyTypeObject *type, PyObject *given, PyObject *named)
{
    PyObject *rare;
    if (!PyArg_ParseTuple(given, "O", &rare))
        return NULL;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Pen *pen = (Pen *)allocate(type, 0);
    if (pen == NULL)
        return NULL;
    Py_INCREF(rare);
    pen->rare = rare;
    pen->top = HEAD_OPEN;
    return (PyObject *)pen;
}

static int pen_traverse(PyObject *self, visitproc visit, void *arg)
{
    /* Not its memory: no cycle leads through it, and a view that was cleared before us cannot be given back. */
    Py_VISIT(((Pen *)self)->rare);
    Py_VISIT(Py_TYPE(self));
    return 0;
}

static int pen_clear(PyObject *self)
{
    Pen *pen = (Pen *)self;
    /* A method may still be called, from another object's end: it finds no memory, and nobody to ask. */
    PyObject *rare = pen->rare;
    Py_INCREF(Py_None);
    pen->rare = Py_None;
    Py_XDECREF(rare);
    PyBuffer_Release(&pen->page);
    PyBuffer_Release(&pen->space);
    pen->page.len = pen->space.len = 0;
    return 0;
}

static void pen_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    pen_clear(self);
    Py_DECREF(((Pen *)self)->rare);
    freefunc give_back = (freefunc)PyType_GetSlot(type, Py_tp_free);
    give_back(self);
    Py_DECREF(type);
}

static int set_memory(Py_buffer *memory, PyObject *view)
{
    Py_buffer found;
    if (view == NULL) {
        PyErr_SetString(PyExc_AttributeError, "a pen's memory cannot be deleted, only replaced");
        return -1;
    }
    if (PyObject_GetBuffer(view, &found, PyBUF_WRITABLE))
        return -1;
    Py_buffer before = *memory;
    *memory = found;
    PyBuffer_Release(&before);
    return 0;
}

static PyObject *get_memory(Py_buffer *memory)
{
    PyObject *view = memory->obj == NULL ? Py_None : memory->obj;
    Py_INCREF(view);
    return view;
}

static PyObject *get_page(PyObject *self, void *unused) { return get_memory(&((Pen *)self)->page); }
static int set_page(PyObject *self, PyObject *to, void *unused) { return set_memory(&((Pen *)self)->page, to); }
static PyObject *get_space(PyObject *self, void *unused) { return get_memory(&((Pen *)self)->space); }
static int set_space(PyObject *self, PyObject *to, void *unused) { return set_memory(&((Pen *)self)->space, to); }

static PyGetSetDef pen_memory[] = {{"page", get_page, set_page, NULL, NULL},
                                   {"space", get_space, set_space, NULL, NULL},
                                   {NULL, NULL, NULL, NULL, NULL}};
static PyMemberDef pen_members[] = {{"top", T_LONGLONG, offsetof(Pen, top), 0, NULL},
                                    {"offset", T_LONGLONG, offsetof(Pen, offset), 0, NULL},
                                    {"low_step", T_LONGLONG, offsetof(Pen, low_step), 0, NULL},
                                    {"ranged", T_LONGLONG, offsetof(Pen, ranged), 0, NULL},
                                    {"thread", T_LONGLONG, offsetof(Pen, thread), 0, NULL},
                                    {NULL, 0, 0, 0, NULL}};
static PyMethodDef pen_methods[] = {
    {"begin", pen_begin, METH_O, NULL},
    {"end_of", (PyCFunction)(void (*)(void))pen_end_of, METH_FASTCALL, NULL},
    {"add", (PyCFunction)(void (*)(void))pen_add, METH_FASTCALL, NULL},
    {"settle", pen_settle, METH_O, NULL},
    {"ranges", (PyCFunction)(void (*)(void))pen_ranges, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL}};
static PyType_Slot pen_slots[] = {{Py_tp_new, pen_new},           {Py_tp_methods, pen_methods},
                                  {Py_tp_members, pen_members},   {Py_tp_getset, pen_memory},
                                  {Py_tp_traverse, pen_traverse}, {Py_tp_clear, pen_clear},
                                  {Py_tp_dealloc, pen_dealloc},   {0, NULL}};
static PyType_Spec pen_spec = {"holter.recorder._pen.Pen", sizeof(Pen), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, pen_slots};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "holter.recorder._pen", NULL, -1, NULL, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__pen(void)
{
    PyObject *made = PyModule_Create(&module);
    PyObject *pen = made == NULL ? NULL : PyType_FromSpec(&pen_spec);
    stretch_type = pen == NULL ? NULL : (PyTypeObject *)PyType_FromSpec(&stretch_spec);
    if (stretch_type == NULL || PyModule_AddObject(made, "Pen", pen) ||
        PyModule_AddIntConstant(made, "INTERFACE", INTERFACE))
        return NULL;
    return made;
}
