/* The compiled twin of `hotpath.SpanWriter`, four times as fast. hotpath.py documents each method. Rare cases are
   passed to Python (`slow_path`). A failure here is always an exception, and it writes nothing. */

#include "span_writer.h"

/* Increase it with every change that the Python side depends on. */
#define INTERFACE 4

static PyObject *moment_after(PyObject *result, int64_t now)
{
    if (result == NULL)
        return NULL;
    Py_DECREF(result);
    return PyLong_FromLongLong(now);
}

static PyObject *writer_begin(PyObject *self, PyObject *argument)
{
    SpanWriter *writer = (SpanWriter *)self;
    int64_t now = clock_ns();
    long long code = PyLong_AsLongLong(argument);
    if (!(code == -1 && PyErr_Occurred()) && open_span(writer, now, code))
        return PyLong_FromLongLong(now);
    PyErr_Clear();
    return moment_after(call_method(writer->slow_path, "begin_slow", Py_BuildValue("(LO)", (long long)now, argument)), now);
}

static PyObject *writer_end_of(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    SpanWriter *writer = (SpanWriter *)self;
    int64_t now = clock_ns();
    if (count < 1 || count > 3) {
        PyErr_SetString(PyExc_TypeError, "end_of takes a code, a value and a mode");
        return NULL;
    }
    long long code = PyLong_AsLongLong(given[0]);
    double value = count > 1 ? PyFloat_AsDouble(given[1]) : Py_NAN;
    long long mode = count > 2 && given[2] != Py_None ? PyLong_AsLongLong(given[2]) : TRAIN;
    if (!PyErr_Occurred() && close_span(writer, now, code, value, mode))
        return PyLong_FromLongLong(now);
    PyErr_Clear();
    PyObject *rest = count == 1   ? Py_BuildValue("(LO)", (long long)now, given[0])
                     : count == 2 ? Py_BuildValue("(LOO)", (long long)now, given[0], given[1])
                                  : Py_BuildValue("(LOOO)", (long long)now, given[0], given[1], given[2]);
    return moment_after(call_method(writer->slow_path, "end_slow", rest), now);
}

static PyObject *writer_add(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    SpanWriter *writer = (SpanWriter *)self;
    if (count >= 4 && count <= 7) {
        long long phase = PyLong_AsLongLong(given[0]), name = PyLong_AsLongLong(given[1]);
        long long begin = PyLong_AsLongLong(given[2]), duration = PyLong_AsLongLong(given[3]);
        double value = count > 4 ? PyFloat_AsDouble(given[4]) : Py_NAN;
        long long step = count > 5 && given[5] != Py_None ? PyLong_AsLongLong(given[5]) & STEP_MASK : writer->low_step;
        long long mode = count > 6 ? PyLong_AsLongLong(given[6]) : TRAIN;
        if (!PyErr_Occurred() && write_record(writer, begin, duration, value, tail_of(phase, name, mode, step)))
            return Py_NewRef(Py_None);
        PyErr_Clear();
    }
    PyObject *rest = PyTuple_New(count);
    for (Py_ssize_t at = 0; rest != NULL && at < count; at++) {
        Py_INCREF(given[at]);
        PyTuple_SetItem(rest, at, given[at]);
    }
    return call_method(writer->slow_path, "add_slow", rest);
}

int writer_set_step_to(SpanWriter *writer, long long step)
{
    writer->low_step = step & STEP_MASK;
    if (writer->page.len <= HEAD_STEP * 8)
        return 1;
    ((Word *)writer->page.buf)[HEAD_STEP] = step;
    if ((step & (COST_EVERY - 1)) != 1)
        return 1;
    PyObject *cost = call_method(writer->slow_path, "cost", PyTuple_New(0));
    Py_XDECREF(cost);
    return cost != NULL;
}

static PyObject *writer_set_step(PyObject *self, PyObject *argument)
{
    long long step = PyLong_AsLongLong(argument);
    if ((step == -1 && PyErr_Occurred()) || !writer_set_step_to((SpanWriter *)self, step))
        return NULL;
    return Py_NewRef(Py_None);
}

/* -- a range: `__enter__` and `__exit__` for one code */

typedef struct {
    PyObject_HEAD
    PyObject *writer, *range;
    long long code;
} RangeContext;

static int on_own_thread(RangeContext *context)
{
    return (unsigned long)((SpanWriter *)context->writer)->thread == PyThread_get_thread_ident();
}

static PyObject *context_enter(PyObject *self, PyObject *Py_UNUSED(unused))
{
    RangeContext *context = (RangeContext *)self;
    int64_t now = clock_ns();
    if (!on_own_thread(context))
        return call_method(context->range, "enter", PyTuple_New(0));
    if (!open_span((SpanWriter *)context->writer, now, context->code)) {
        PyObject *rest = Py_BuildValue("(LL)", (long long)now, context->code);
        PyObject *done = call_method(((SpanWriter *)context->writer)->slow_path, "begin_slow", rest);
        if (done == NULL)
            return NULL;
        Py_DECREF(done);
    }
    return Py_NewRef(context->range);
}

static PyObject *context_leave(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    RangeContext *context = (RangeContext *)self;
    int64_t now = clock_ns();
    if (count != 3) {
        PyErr_SetString(PyExc_TypeError, "__exit__ takes a class, an exception and a traceback");
        return NULL;
    }
    if (given[1] == Py_None && on_own_thread(context) &&
        close_span((SpanWriter *)context->writer, now, context->code, Py_NAN, TRAIN)) {
        ((SpanWriter *)context->writer)->ranged++;
        return Py_NewRef(Py_None);
    }
    return call_method(context->range, "leave", Py_BuildValue("(OOO)", given[0], given[1], given[2]));
}

static int context_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(((RangeContext *)self)->writer);
    Py_VISIT(((RangeContext *)self)->range);
    Py_VISIT(Py_TYPE(self));
    return 0;
}

static void context_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    Py_XDECREF(((RangeContext *)self)->writer);
    Py_XDECREF(((RangeContext *)self)->range);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyMethodDef context_methods[] = {
    {"enter", context_enter, METH_NOARGS, NULL},
    {"leave", (PyCFunction)(void (*)(void))context_leave, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL}};
/* No tp_clear: a cycle through a context passes the slots of its range, which are cleared. */
static PyType_Slot context_slots[] = {{Py_tp_methods, context_methods},
                                      {Py_tp_traverse, context_traverse},
                                      {Py_tp_dealloc, context_dealloc},
                                      {0, NULL}};
static PyType_Spec context_spec = {"holter.recorder.native._hotpath.RangeContext", sizeof(RangeContext), 0,
                                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, context_slots};
static PyTypeObject *context_type;

static PyObject *writer_ranges(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    long long code = count == 2 ? PyLong_AsLongLong(given[0]) : -1;
    if (code < 0) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "ranges takes a code and a range");
        return NULL;
    }
    RangeContext *context = PyObject_GC_New(RangeContext, context_type);
    if (context == NULL)
        return NULL;
    context->writer = Py_NewRef(self);
    context->range = Py_NewRef(given[1]);
    context->code = code;
    PyObject_GC_Track((PyObject *)context);
    PyObject *enter = PyObject_GetAttrString((PyObject *)context, "enter");
    PyObject *leave = enter == NULL ? NULL : PyObject_GetAttrString((PyObject *)context, "leave");
    Py_DECREF(context);
    PyObject *both = leave == NULL ? NULL : PyTuple_Pack(2, enter, leave);
    Py_XDECREF(enter);
    Py_XDECREF(leave);
    return both;
}

/* -- the type */

static PyObject *writer_new(PyTypeObject *type, PyObject *given, PyObject *Py_UNUSED(named))
{
    PyObject *slow_path;
    if (!PyArg_ParseTuple(given, "O", &slow_path))
        return NULL;
    SpanWriter *writer = (SpanWriter *)allocate(type);
    if (writer == NULL)
        return NULL;
    writer->slow_path = Py_NewRef(slow_path);
    writer->top = HEAD_OPEN;
    return (PyObject *)writer;
}

int set_memory(PyObject *self, PyObject *view, void *offset)
{
    Py_buffer found, *memory = (Py_buffer *)((char *)self + (intptr_t)offset);
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

PyObject *get_memory(PyObject *self, void *offset)
{
    Py_buffer *memory = (Py_buffer *)((char *)self + (intptr_t)offset);
    return Py_NewRef(memory->obj == NULL ? Py_None : memory->obj);
}

static int writer_traverse(PyObject *self, visitproc visit, void *arg)
{
    /* The memory is not visited: no cycle leads through it, and a view that was cleared first cannot be released. */
    Py_VISIT(((SpanWriter *)self)->slow_path);
    Py_VISIT(Py_TYPE(self));
    return 0;
}

static int writer_clear(PyObject *self)
{
    SpanWriter *writer = (SpanWriter *)self;
    /* A method may still be called, from another object's end: it finds no memory, and no slow path. */
    PyObject *slow_path = writer->slow_path;
    writer->slow_path = Py_NewRef(Py_None);
    Py_XDECREF(slow_path);
    PyBuffer_Release(&writer->page);
    PyBuffer_Release(&writer->space);
    writer->page.len = writer->space.len = 0;
    return 0;
}

static void writer_dealloc(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    writer_clear(self);
    Py_DECREF(((SpanWriter *)self)->slow_path);
    release(self);
}

static PyGetSetDef writer_memory[] = {BUFFER(page, SpanWriter) BUFFER(space, SpanWriter){NULL, NULL, NULL, NULL, NULL}};
#define NUMBER(name) MEMBER(name, T_LONGLONG, SpanWriter, 0)
static PyMemberDef writer_members[] = {MEMBER(slow_path, T_OBJECT, SpanWriter, READONLY) NUMBER(top) NUMBER(offset)
                                           NUMBER(low_step) NUMBER(ranged) NUMBER(thread){NULL, 0, 0, 0, NULL}};
static PyMethodDef writer_methods[] = {
    {"begin", writer_begin, METH_O, NULL},
    {"end_of", (PyCFunction)(void (*)(void))writer_end_of, METH_FASTCALL, NULL},
    {"add", (PyCFunction)(void (*)(void))writer_add, METH_FASTCALL, NULL},
    {"set_step", writer_set_step, METH_O, NULL},
    {"ranges", (PyCFunction)(void (*)(void))writer_ranges, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL}};
static PyType_Slot writer_slots[] = {{Py_tp_new, writer_new},           {Py_tp_methods, writer_methods},
                                  {Py_tp_members, writer_members},   {Py_tp_getset, writer_memory},
                                  {Py_tp_traverse, writer_traverse}, {Py_tp_clear, writer_clear},
                                  {Py_tp_dealloc, writer_dealloc},   {0, NULL}};
static PyType_Spec writer_spec = {"holter.recorder.native._hotpath.SpanWriter", sizeof(SpanWriter), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, writer_slots};

PyTypeObject *writer_type;

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "holter.recorder.native._hotpath", NULL, -1, NULL, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__hotpath(void)
{
    PyObject *made = PyModule_Create(&module);
    writer_type = made == NULL ? NULL : (PyTypeObject *)PyType_FromSpec(&writer_spec);
    context_type = writer_type == NULL ? NULL : (PyTypeObject *)PyType_FromSpec(&context_spec);
    if (context_type == NULL || PyModule_AddObject(made, "SpanWriter", (PyObject *)writer_type) || !add_step_counter(made) ||
        !add_step_hooks(made) || PyModule_AddIntConstant(made, "INTERFACE", INTERFACE))
        return NULL;
    return made;
}
