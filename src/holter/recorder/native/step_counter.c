/* The compiled twin of `hotpath.StepCounter`. */

#include "span_writer.h"

PyTypeObject *counter_type;

int begin_next_step(StepCounter *counter, int64_t now)
{
    counter->since = now;
    long long step = ++counter->step;
    for (Py_ssize_t at = 0; at < PyList_Size(counter->writers); at++) {
        PyObject *writer = PyList_GetItem(counter->writers, at);
        Py_INCREF(writer);
        int done_setting;
        if (Py_TYPE(writer) == writer_type)
            done_setting = writer_set_step_to((SpanWriter *)writer, step);
        else {
            PyObject *done = call_method(writer, "set_step", Py_BuildValue("(L)", step));
            done_setting = done != NULL;
            Py_XDECREF(done);
        }
        Py_DECREF(writer);
        if (!done_setting)
            return 0;
    }
    /* Volatile: the agent writes it. */
    if (counter->wake.len < (Py_ssize_t)sizeof(int32_t) || step < *(volatile int32_t *)counter->wake.buf)
        return 1;
    PyObject *woken = call_method((PyObject *)counter, "woken", Py_BuildValue("(LL)", step, (long long)now));
    Py_XDECREF(woken);
    return woken != NULL;
}

static PyObject *counter_next(PyObject *self, PyObject *argument)
{
    long long now = PyLong_AsLongLong(argument);
    if ((now == -1 && PyErr_Occurred()) || !begin_next_step((StepCounter *)self, now))
        return NULL;
    return Py_NewRef(Py_None);
}

static PyObject *counter_new(PyTypeObject *type, PyObject *Py_UNUSED(given), PyObject *Py_UNUSED(named))
{
    StepCounter *counter = (StepCounter *)allocate(type);
    if (counter == NULL)
        return NULL;
    counter->writers = PyList_New(0);
    if (counter->writers == NULL) {
        Py_DECREF(counter);
        return NULL;
    }
    return (PyObject *)counter;
}

static int counter_traverse(PyObject *self, visitproc visit, void *arg)
{
    /* The memory is not visited, as a writer's is not. */
    Py_VISIT(((StepCounter *)self)->writers);
    Py_VISIT(Py_TYPE(self));
    return 0;
}

static int counter_clear(PyObject *self)
{
    /* The list stays, because a method may still be called; the list clears its own elements. */
    PyBuffer_Release(&((StepCounter *)self)->wake);
    ((StepCounter *)self)->wake.len = 0;
    return 0;
}

static void counter_dealloc(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    counter_clear(self);
    Py_XDECREF(((StepCounter *)self)->writers);
    release(self);
}

static PyGetSetDef memory[] = {BUFFER(wake, StepCounter){NULL, NULL, NULL, NULL, NULL}};
static PyMemberDef members[] = {MEMBER(step, T_LONGLONG, StepCounter, 0) MEMBER(since, T_LONGLONG, StepCounter, 0)
                                    MEMBER(manual_steps, T_BOOL, StepCounter, 0)
                                        MEMBER(writers, T_OBJECT, StepCounter, READONLY){NULL, 0, 0, 0, NULL}};
static PyMethodDef methods[] = {{"next_step", counter_next, METH_O, NULL}, {NULL, NULL, 0, NULL}};
static PyType_Slot slots[] = {{Py_tp_new, counter_new},           {Py_tp_methods, methods},
                              {Py_tp_members, members},         {Py_tp_getset, memory},
                              {Py_tp_traverse, counter_traverse}, {Py_tp_clear, counter_clear},
                              {Py_tp_dealloc, counter_dealloc},   {0, NULL}};
static PyType_Spec spec = {"holter.recorder.native._hotpath.StepCounter", sizeof(StepCounter), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};

int add_step_counter(PyObject *module)
{
    counter_type = (PyTypeObject *)PyType_FromSpec(&spec);
    return counter_type != NULL && !PyModule_AddObject(module, "StepCounter", (PyObject *)counter_type);
}
