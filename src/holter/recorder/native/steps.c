/* `hotpath.Steps` once more, compiled. */

#include "pen.h"

PyTypeObject *steps_type;

int begin_next_step(Steps *steps, int64_t now)
{
    steps->since = now;
    long long step = ++steps->step;
    for (Py_ssize_t at = 0; at < PyList_Size(steps->pens); at++) {
        PyObject *pen = PyList_GetItem(steps->pens, at);
        Py_INCREF(pen);
        int settled;
        if (Py_TYPE(pen) == pen_type)
            settled = pen_settle_at((Pen *)pen, step);
        else {
            PyObject *done = ask(pen, "settle", Py_BuildValue("(L)", step));
            settled = done != NULL;
            Py_XDECREF(done);
        }
        Py_DECREF(pen);
        if (!settled)
            return 0;
    }
    /* Volatile: the agent writes it. */
    if (steps->wake.len < (Py_ssize_t)sizeof(int32_t) || step < *(volatile int32_t *)steps->wake.buf)
        return 1;
    PyObject *woken = ask((PyObject *)steps, "woken", Py_BuildValue("(LL)", step, (long long)now));
    Py_XDECREF(woken);
    return woken != NULL;
}

static PyObject *steps_next(PyObject *self, PyObject *argument)
{
    long long now = PyLong_AsLongLong(argument);
    if ((now == -1 && PyErr_Occurred()) || !begin_next_step((Steps *)self, now))
        return NULL;
    return Py_NewRef(Py_None);
}

static PyObject *steps_new(PyTypeObject *type, PyObject *Py_UNUSED(given), PyObject *Py_UNUSED(named))
{
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Steps *steps = (Steps *)allocate(type, 0);
    if (steps == NULL)
        return NULL;
    steps->pens = PyList_New(0);
    if (steps->pens == NULL) {
        Py_DECREF(steps);
        return NULL;
    }
    return (PyObject *)steps;
}

static int steps_traverse(PyObject *self, visitproc visit, void *arg)
{
    /* The memory is not visited, as a pen's is not. */
    Py_VISIT(((Steps *)self)->pens);
    Py_VISIT(Py_TYPE(self));
    return 0;
}

static int steps_clear(PyObject *self)
{
    /* The list stays one, whoever asks for it now: its own elements are cleared by the list. */
    PyBuffer_Release(&((Steps *)self)->wake);
    ((Steps *)self)->wake.len = 0;
    return 0;
}

static void steps_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    steps_clear(self);
    Py_XDECREF(((Steps *)self)->pens);
    freefunc give_back = (freefunc)PyType_GetSlot(type, Py_tp_free);
    give_back(self);
    Py_DECREF(type);
}

static PyObject *get_wake(PyObject *self, void *Py_UNUSED(unused)) { return get_memory(&((Steps *)self)->wake); }
static int set_wake(PyObject *self, PyObject *to, void *Py_UNUSED(unused)) { return set_memory(&((Steps *)self)->wake, to); }

static PyGetSetDef memory[] = {{"wake", get_wake, set_wake, NULL, NULL}, {NULL, NULL, NULL, NULL, NULL}};
static PyMemberDef members[] = {{"step", T_LONGLONG, offsetof(Steps, step), 0, NULL},
                                {"since", T_LONGLONG, offsetof(Steps, since), 0, NULL},
                                {"manual_steps", T_BOOL, offsetof(Steps, manual_steps), 0, NULL},
                                {"pens", T_OBJECT, offsetof(Steps, pens), READONLY, NULL},
                                {NULL, 0, 0, 0, NULL}};
static PyMethodDef methods[] = {{"next_step", steps_next, METH_O, NULL}, {NULL, NULL, 0, NULL}};
static PyType_Slot slots[] = {{Py_tp_new, steps_new},           {Py_tp_methods, methods},
                              {Py_tp_members, members},         {Py_tp_getset, memory},
                              {Py_tp_traverse, steps_traverse}, {Py_tp_clear, steps_clear},
                              {Py_tp_dealloc, steps_dealloc},   {0, NULL}};
static PyType_Spec spec = {"holter.recorder.native._pen.Steps", sizeof(Steps), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};

int add_steps(PyObject *module)
{
    steps_type = (PyTypeObject *)PyType_FromSpec(&spec);
    return steps_type != NULL && !PyModule_AddObject(module, "Steps", (PyObject *)steps_type);
}
