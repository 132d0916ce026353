/* The compiled twin of `ThreadState` of step_hooks.py, and the lookup of the calling thread's. */

#include "step_hooks.h"

static PyTypeObject *state_type;

static int state_traverse(PyObject *self, visitproc visit, void *arg)
{
    ThreadState *state = (ThreadState *)self;
    Py_VISIT(state->thread_spool);
    Py_VISIT(state->begin);
    Py_VISIT(state->end_of);
    Py_VISIT(state->add);
    Py_VISIT(state->fail);
    Py_VISIT((PyObject *)state->writer);
    Py_VISIT(Py_TYPE(self));
    return 0;
}

static int state_clear(PyObject *self)
{
    ThreadState *state = (ThreadState *)self;
    if (state->home != NULL && state->home->last == state)
        state->home->last = NULL;
    state->home = NULL;
    Py_CLEAR(state->thread_spool);
    Py_CLEAR(state->begin);
    Py_CLEAR(state->end_of);
    Py_CLEAR(state->add);
    Py_CLEAR(state->fail);
    Py_CLEAR(state->writer);
    return 0;
}

static void state_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    state_clear(self);
    freefunc give_back = (freefunc)PyType_GetSlot(type, Py_tp_free);
    give_back(self);
    Py_DECREF(type);
}

static PyObject *state_new(PyTypeObject *type, PyObject *given, PyObject *Py_UNUSED(named))
{
    PyObject *thread_spool;
    if (!PyArg_ParseTuple(given, "O", &thread_spool))
        return NULL;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    ThreadState *state = (ThreadState *)allocate(type, 0);
    if (state == NULL)
        return NULL;
    state->thread_spool = Py_NewRef(thread_spool);
    state->seen = 1;
    state->thread = PyThread_get_thread_ident();
    PyObject *writer = PyObject_GetAttrString(thread_spool, "writer");
    state->begin = PyObject_GetAttrString(thread_spool, "begin");
    state->end_of = PyObject_GetAttrString(thread_spool, "end_of");
    state->add = PyObject_GetAttrString(thread_spool, "add");
    state->fail = PyObject_GetAttrString(thread_spool, "fail");
    if (writer != NULL && Py_TYPE(writer) == writer_type)
        state->writer = (SpanWriter *)writer;
    else
        Py_XDECREF(writer);
    if (PyErr_Occurred()) {
        Py_DECREF(state);
        return NULL;
    }
    return (PyObject *)state;
}

static PyMemberDef state_members[] = {{"thread_spool", T_OBJECT, offsetof(ThreadState, thread_spool), READONLY, NULL},
                                   {"begin", T_OBJECT, offsetof(ThreadState, begin), 0, NULL},
                                   {"end_of", T_OBJECT, offsetof(ThreadState, end_of), 0, NULL},
                                   {"add", T_OBJECT, offsetof(ThreadState, add), 0, NULL},
                                   {"fail", T_OBJECT, offsetof(ThreadState, fail), 0, NULL},
                                   {"depth", T_LONGLONG, offsetof(ThreadState, depth), 0, NULL},
                                   {"fetching", T_LONGLONG, offsetof(ThreadState, fetching), 0, NULL},
                                   {"optimizers", T_LONGLONG, offsetof(ThreadState, optimizers), 0, NULL},
                                   {"began", T_LONGLONG, offsetof(ThreadState, began), 0, NULL},
                                   {"optimizer", T_LONGLONG, offsetof(ThreadState, optimizer), 0, NULL},
                                   {"forward_end", T_LONGLONG, offsetof(ThreadState, forward_end), 0, NULL},
                                   {"pass_began", T_LONGLONG, offsetof(ThreadState, pass_began), 0, NULL},
                                   {"forward", T_BOOL, offsetof(ThreadState, forward), 0, NULL},
                                   {"backward", T_BOOL, offsetof(ThreadState, backward), 0, NULL},
                                   {"loading", T_BOOL, offsetof(ThreadState, loading), 0, NULL},
                                   {"moving", T_BOOL, offsetof(ThreadState, moving), 0, NULL},
                                   {"saving", T_BOOL, offsetof(ThreadState, saving), 0, NULL},
                                   {"waiting", T_BOOL, offsetof(ThreadState, waiting), 0, NULL},
                                   {"scaling", T_BOOL, offsetof(ThreadState, scaling), 0, NULL},
                                   {"seen", T_BOOL, offsetof(ThreadState, seen), 0, NULL},
                                   {"asked", T_BOOL, offsetof(ThreadState, asked), 0, NULL},
                                   {"before_pass", T_BOOL, offsetof(ThreadState, before_pass), 0, NULL},
                                   {"before_next", T_BOOL, offsetof(ThreadState, before_next), 0, NULL},
                                   {"call_code", T_LONGLONG, offsetof(ThreadState, call_code), 0, NULL},
                                   {"heard", T_BOOL, offsetof(ThreadState, heard), 0, NULL},
                                   {NULL, 0, 0, 0, NULL}};
static PyType_Slot state_slots[] = {{Py_tp_new, state_new},           {Py_tp_members, state_members},
                                 {Py_tp_traverse, state_traverse}, {Py_tp_clear, state_clear},
                                 {Py_tp_dealloc, state_dealloc},   {0, NULL}};
static PyType_Spec state_spec = {"holter.recorder.native._hotpath.ThreadState", sizeof(ThreadState), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                              state_slots};

ThreadState *current_state(StepHooks *hooks)
{
    ThreadState *state = hooks->last;
    unsigned long thread = PyThread_get_thread_ident();
    /* A writer without a thread belongs to a thread that has ended, whose ident this one may have got. */
    if (state != NULL && state->thread == thread && (state->writer == NULL || (unsigned long)state->writer->thread == thread))
        return state;
    PyObject *found = hooks->local == NULL ? NULL : PyObject_GetAttrString(hooks->local, "current");
    if (found == NULL)
        return NULL;
    state = Py_TYPE(found) == state_type ? (ThreadState *)found : NULL;
    Py_DECREF(found); /* its thread keeps it */
    if (state == NULL || state->thread != thread || (state->home != NULL && state->home != hooks))
        return NULL;
    state->home = hooks;
    hooks->last = state;
    return state;
}

int add_thread_state(PyObject *module)
{
    state_type = (PyTypeObject *)PyType_FromSpec(&state_spec);
    return state_type != NULL && !PyModule_AddObject(module, "ThreadState", Py_NewRef((PyObject *)state_type));
}
