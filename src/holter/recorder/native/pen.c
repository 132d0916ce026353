/* `hotpath.Pen` once more, compiled: what a mark costs a training falls to a fourth. hotpath.py tells what each
   method means; all that is rare is asked of Python, as there. Nothing here may fail but by an exception, and none
   leaves a mark. */

#include "pen.h"

/* Raised with every change that Python must know of. */
#define INTERFACE 3

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
        long long step = count > 5 && given[5] != Py_None ? PyLong_AsLongLong(given[5]) & STEP_MASK : pen->low_step;
        long long mode = count > 6 ? PyLong_AsLongLong(given[6]) : TRAIN;
        if (!PyErr_Occurred() && write_record(pen, begin, duration, value, tail_of(phase, name, mode, step)))
            return Py_NewRef(Py_None);
        PyErr_Clear();
    }
    PyObject *rest = PyTuple_New(count);
    for (Py_ssize_t at = 0; rest != NULL && at < count; at++) {
        Py_INCREF(given[at]);
        PyTuple_SetItem(rest, at, given[at]);
    }
    return ask(pen->rare, "add_slow", rest);
}

int pen_settle_at(Pen *pen, long long step)
{
    pen->low_step = step & STEP_MASK;
    if (pen->page.len <= HEAD_STEP * 8)
        return 1;
    ((Word *)pen->page.buf)[HEAD_STEP] = step;
    if ((step & (COST_EVERY - 1)) != 1)
        return 1;
    PyObject *cost = ask(pen->rare, "cost", PyTuple_New(0));
    Py_XDECREF(cost);
    return cost != NULL;
}

static PyObject *pen_settle(PyObject *self, PyObject *argument)
{
    long long step = PyLong_AsLongLong(argument);
    if ((step == -1 && PyErr_Occurred()) || !pen_settle_at((Pen *)self, step))
        return NULL;
    return Py_NewRef(Py_None);
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

static PyObject *stretch_enter(PyObject *self, PyObject *Py_UNUSED(unused))
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
        return Py_NewRef(Py_None);
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
static PyType_Spec stretch_spec = {"holter.recorder.native._pen.Stretch", sizeof(Stretch), 0,
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

static PyObject *pen_new(PyTypeObject *type, PyObject *given, PyObject *Py_UNUSED(named))
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

int set_memory(Py_buffer *memory, PyObject *view)
{
    Py_buffer found;
    if (view == NULL) {
        PyErr_SetString(PyExc_AttributeError, "memory cannot be deleted, only replaced");
        return -1;
    }
    if (PyObject_GetBuffer(view, &found, PyBUF_WRITABLE))
        return -1;
    Py_buffer before = *memory;
    *memory = found;
    PyBuffer_Release(&before);
    return 0;
}

PyObject *get_memory(Py_buffer *memory)
{
    PyObject *view = memory->obj == NULL ? Py_None : memory->obj;
    Py_INCREF(view);
    return view;
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

static PyObject *get_page(PyObject *self, void *Py_UNUSED(unused)) { return get_memory(&((Pen *)self)->page); }
static int set_page(PyObject *self, PyObject *to, void *Py_UNUSED(unused)) { return set_memory(&((Pen *)self)->page, to); }
static PyObject *get_space(PyObject *self, void *Py_UNUSED(unused)) { return get_memory(&((Pen *)self)->space); }
static int set_space(PyObject *self, PyObject *to, void *Py_UNUSED(unused)) { return set_memory(&((Pen *)self)->space, to); }

static PyGetSetDef pen_memory[] = {{"page", get_page, set_page, NULL, NULL},
                                   {"space", get_space, set_space, NULL, NULL},
                                   {NULL, NULL, NULL, NULL, NULL}};
static PyMemberDef pen_members[] = {{"rare", T_OBJECT, offsetof(Pen, rare), READONLY, NULL},
                                    {"top", T_LONGLONG, offsetof(Pen, top), 0, NULL},
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
static PyType_Spec pen_spec = {"holter.recorder.native._pen.Pen", sizeof(Pen), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, pen_slots};

PyTypeObject *pen_type;

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "holter.recorder.native._pen", NULL, -1, NULL, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__pen(void)
{
    PyObject *made = PyModule_Create(&module);
    pen_type = made == NULL ? NULL : (PyTypeObject *)PyType_FromSpec(&pen_spec);
    stretch_type = pen_type == NULL ? NULL : (PyTypeObject *)PyType_FromSpec(&stretch_spec);
    if (stretch_type == NULL || PyModule_AddObject(made, "Pen", (PyObject *)pen_type) || !add_steps(made) ||
        !add_usual(made) || PyModule_AddIntConstant(made, "INTERFACE", INTERFACE))
        return NULL;
    return made;
}
