/* The compiled twin of `ThreadState` of step_hooks.py, and the lookup of the calling thread's. */

#include "step_hooks.h"

static PyTypeObject *state_type;

#define COPIES(DO) DO(begin) DO(end_of) DO(add) DO(fail) /* of attributes of the thread spool */

static int state_traverse(PyObject *self, visitproc visit, void *arg)
{
    ThreadState *state = (ThreadState *)self;
#define VISIT(name) Py_VISIT(state->name);
    COPIES(VISIT)
    Py_VISIT(state->thread_spool);
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
#define CLEAR(name) Py_CLEAR(state->name);
    COPIES(CLEAR)
    Py_CLEAR(state->thread_spool);
    Py_CLEAR(state->writer);
    return 0;
}

static void state_dealloc(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    state_clear(self);
    release(self);
}

static PyObject *state_new(PyTypeObject *type, PyObject *given, PyObject *Py_UNUSED(named))
{
    PyObject *thread_spool;
    if (!PyArg_ParseTuple(given, "O", &thread_spool))
        return NULL;
    ThreadState *state = (ThreadState *)allocate(type);
    if (state == NULL)
        return NULL;
    state->thread_spool = Py_NewRef(thread_spool);
    state->seen = 1;
    state->thread = PyThread_get_thread_ident();
    PyObject *writer = PyObject_GetAttrString(thread_spool, "writer");
#define COPY(name) state->name = PyObject_GetAttrString(thread_spool, #name);
    COPIES(COPY)
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

#define OBJECT(name) MEMBER(name, T_OBJECT, ThreadState, 0)
#define NUMBER(name) MEMBER(name, T_LONGLONG, ThreadState, 0)
#define FLAG(name) MEMBER(name, T_BOOL, ThreadState, 0)
static PyMemberDef state_members[] = {
    MEMBER(thread_spool, T_OBJECT, ThreadState, READONLY) COPIES(OBJECT) NUMBER(depth) NUMBER(fetching)
        NUMBER(optimizers) NUMBER(began) NUMBER(optimizer) NUMBER(forward_end) NUMBER(pass_began) NUMBER(call_code)
            FLAG(forward) FLAG(backward) FLAG(loading) FLAG(moving) FLAG(saving) FLAG(waiting) FLAG(scaling) FLAG(seen)
                FLAG(heard) FLAG(asked) FLAG(before_pass) FLAG(before_next){NULL, 0, 0, 0, NULL}};
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
