/* The hooks of a common training step: fetch a batch, call a model in training mode, begin a backward pass from a
   finite loss on the host, end the step with its only optimizer. In a step of ten milliseconds the caches hold little
   of the recorder when a hook is called, so each memory access counts, and these hooks make few. Every other case is
   passed to Python before anything is changed: docs/decisions/0057. */

#include "step_hooks.h"

static PyObject *IS_CPU, *LOADER, *LR, *ON, *PARAM_GROUPS, *TRAINING;

/* Clear an exception, which Python raises again if it is real; 0 for those that must propagate, as Ctrl-C. */
static int forgotten(void)
{
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception))
        return 0;
    PyErr_Clear();
    return 1;
}

/* Call the Python twin's method. */
static PyObject *call_python(PyObject *self, const char *method, PyObject *arguments)
{
    if (forgotten())
        return call_method(self, method, arguments);
    Py_XDECREF(arguments);
    return NULL;
}

/* Return False: nothing was recorded, and the caller does it in Python. */
static PyObject *not_done(void)
{
    if (!forgotten())
        return NULL;
    return Py_NewRef(Py_False);
}

/* -- a batch */

static PyObject *hooks_next_begins(PyObject *self, PyObject *Py_UNUSED(unused))
{
    StepHooks *hooks = (StepHooks *)self;
    int64_t now = clock_ns();
    ThreadState *state = current_state(hooks);
    SpanWriter *writer = writer_of(state);
    if (state != NULL && state->loading)
        return Py_NewRef(Py_False);
    if (writer == NULL || state->optimizers || !state->seen || !open_span(writer, now, hooks->next_code))
        return call_python(self, "begin_next", PyTuple_New(0));
    state->before_next = state->forward;
    state->loading = state->forward = state->asked = 1; /* models that a dataset calls are not the one that trains */
    state->seen = 0;
    state->forward_end = 0;
    return Py_NewRef(Py_True);
}

static PyObject *hooks_next_ends(PyObject *self, PyObject *iterator)
{
    StepHooks *hooks = (StepHooks *)self;
    int64_t now = clock_ns();
    ThreadState *state = current_state(hooks);
    SpanWriter *writer = writer_of(state);
    PyObject *loader = writer != NULL && state->asked ? PyObject_GetAttr(iterator, LOADER) : NULL;
    int known = loader != NULL && PyFloat_CheckExact(loader);
    double number = known ? PyFloat_AsDouble(loader) : 0.0;
    Py_XDECREF(loader);
    if (known && close_span(writer, now, hooks->next_code, number, TRAIN)) {
        state->loading = state->asked = 0;
        state->forward = state->before_next;
        return Py_NewRef(Py_None);
    }
    return call_python(self, "end_next", Py_BuildValue("(O)", iterator));
}

/* -- a model */

/* 1 when a module trains, 0 when it evaluates, -1 when it says neither. */
static int trains(PyObject *module)
{
    PyObject *training = PyObject_GetAttr(module, TRAINING);
    int found = training == Py_True ? 1 : training == Py_False ? 0 : -1;
    Py_XDECREF(training);
    return found;
}

static PyObject *hooks_call_begins(PyObject *self, PyObject *module)
{
    StepHooks *hooks = (StepHooks *)self;
    int64_t now = clock_ns();
    ThreadState *state = current_state(hooks);
    if (state != NULL && state->forward)
        return Py_NewRef(Py_False);
    SpanWriter *writer = writer_of(state);
    PyObject *known = PyDict_Check(hooks->model_codes)
                          ? PyDict_GetItemWithError(hooks->model_codes, (PyObject *)Py_TYPE(module))
                          : NULL;
    long long code = known == NULL ? -1 : PyLong_AsLongLong(known);
    if (writer == NULL || code < 0 || hooks->predicting != Py_False || hooks->on_forward != Py_None ||
        hooks->evaluates || trains(module) != 1 || !open_span(writer, now, code))
        return call_python(self, "begin_call", Py_BuildValue("(O)", module));
    state->forward = state->seen = 1;
    state->call_code = code;
    return Py_NewRef(Py_True);
}

static PyObject *hooks_call_ends(PyObject *self, PyObject *module)
{
    StepHooks *hooks = (StepHooks *)self;
    int64_t now = clock_ns();
    ThreadState *state = current_state(hooks);
    SpanWriter *writer = writer_of(state);
    if (writer != NULL && state->call_code && hooks->predicting == Py_False && trains(module) == 1 &&
        close_span(writer, now, state->call_code, Py_NAN, TRAIN)) {
        state->forward = 0;
        state->forward_end = now;
        return Py_NewRef(Py_None);
    }
    return call_python(self, "end_call", Py_BuildValue("(O)", module));
}

/* -- the one optimizer that ends every step */

static int is_sole(StepHooks *hooks, PyObject *optimizer)
{
    return (long long)(intptr_t)optimizer == hooks->sole && (PyObject *)Py_TYPE(optimizer) == hooks->sole_type;
}

static PyObject *hooks_optimizer_begins(PyObject *self, PyObject *optimizer)
{
    StepHooks *hooks = (StepHooks *)self;
    int64_t now = clock_ns();
    if (!is_sole(hooks, optimizer) || hooks->before_step != Py_None)
        return Py_NewRef(Py_False);
    ThreadState *state = current_state(hooks);
    SpanWriter *writer = writer_of(state);
    if (writer == NULL || state->scaling || state->optimizers || !open_span(writer, now, hooks->sole_code))
        return not_done();
    state->seen = 1;
    state->forward_end = 0;
    state->optimizers = 1;
    state->optimizer = hooks->sole;
    state->began = now;
    return Py_NewRef(Py_True);
}

/* Whether the learning rate is the object that was noted last, not too long ago. */
static int same_rate(StepHooks *hooks, PyObject *optimizer)
{
    PyObject *groups = hooks->rate_left > 0 ? PyObject_GetAttr(optimizer, PARAM_GROUPS) : NULL;
    PyObject *group = groups != NULL && PyList_Check(groups) ? PyList_GetItem(groups, 0) : NULL;
    int same = group != NULL && PyDict_Check(group) && PyDict_GetItemWithError(group, LR) == hooks->rate;
    Py_XDECREF(groups);
    return same;
}

static PyObject *hooks_optimizer_ended(PyObject *self, PyObject *optimizer)
{
    StepHooks *hooks = (StepHooks *)self;
    StepCounter *counter = hooks->session;
    int64_t now = clock_ns();
    if (!is_sole(hooks, optimizer) || hooks->after_step != Py_None || hooks->backward_open || counter == NULL ||
        counter->manual_steps || !counter->since || counter->step >= hooks->wake_at || PyList_Size(hooks->pauses) ||
        PySet_Size(hooks->boundary_calls) || !same_rate(hooks, optimizer))
        return not_done();
    ThreadState *state = current_state(hooks);
    SpanWriter *writer = writer_of(state);
    /* The record of the optimizer holds the begin of the step, see layout.h. */
    if (writer == NULL || state->scaling || state->optimizers != 1 ||
        !close_span(writer, now, hooks->sole_code, (double)step_lead(counter->since, state->began), TRAIN))
        return not_done();
    state->optimizers = 0;
    hooks->rate_left--;
    hooks->inner_steps++;
    if (!begin_next_step(counter, now))
        return NULL;
    return Py_NewRef(Py_True);
}

/* -- a backward pass */

/* Read a finite loss on the host that no observer waits for; 0 for every other loss. */
static int read_loss(StepHooks *hooks, PyObject *loss, double *value)
{
    if ((PyObject *)Py_TYPE(loss) != hooks->tensor || hooks->look != Py_None || hooks->scaled != Py_None ||
        PySet_Size(hooks->logged_names) || hooks->session == NULL)
        return 0;
    PyObject *on = PyObject_GetAttr(hooks->losses, ON);
    PyObject *observed = on == Py_True ? PyObject_CallFunctionObjArgs(hooks->observed, loss, NULL) : NULL;
    PyObject *modes = observed == Py_False ? PyObject_CallFunctionObjArgs(hooks->modes, NULL) : NULL;
    PyObject *on_host = modes != NULL && PyObject_Not(modes) == 1 ? PyObject_GetAttr(loss, IS_CPU) : NULL;
    PyObject *found = on_host == Py_True ? PyObject_CallFunctionObjArgs(hooks->item, loss, NULL) : NULL;
    int finite = 0;
    if (found != NULL && PyFloat_CheckExact(found)) {
        *value = PyFloat_AsDouble(found);
        finite = *value - *value == 0.0;
    }
    Py_XDECREF(found);
    Py_XDECREF(on_host);
    Py_XDECREF(modes);
    Py_XDECREF(observed);
    Py_XDECREF(on);
    if (!finite)
        return 0;
    hooks->healthy_step = hooks->session->step;
    hooks->healthy_loss = *value;
    return 1;
}

static int add_record(SpanWriter *writer, int phase, long long name, int64_t begin, int64_t duration, double value)
{
    if (write_record(writer, begin, duration, value, tail_of(phase, name, TRAIN, writer->low_step)))
        return 1;
    PyObject *rest = Py_BuildValue("(iLLLd)", phase, name, (long long)begin, (long long)duration, value);
    PyObject *added = call_method(writer->slow_path, "add_slow", rest);
    Py_XDECREF(added);
    return added != NULL;
}

static PyObject *hooks_pass_begins(PyObject *self, PyObject *tensors)
{
    StepHooks *hooks = (StepHooks *)self;
    int64_t now = clock_ns();
    ThreadState *state = current_state(hooks);
    SpanWriter *writer = writer_of(state);
    if (writer == NULL || PyList_Size(hooks->evaluated) ||
        (!state->backward && !open_span(writer, now, hooks->backward_code)))
        return call_python(self, "begin_pass", Py_BuildValue("(O)", tensors));
    if (state->backward)
        return Py_NewRef(Py_False);
    state->before_pass = state->forward;
    state->backward = state->forward = state->seen = hooks->backward_open = 1; /* what is recomputed is no forward pass */
    state->pass_began = now;
    double loss = Py_NAN;
    int done = 1;
    Py_INCREF((PyObject *)state);
    if (!read_loss(hooks, tensors, &loss)) {
        PyObject *found = call_python(self, "read_loss", Py_BuildValue("(OOL)", tensors, (PyObject *)state, (long long)now));
        loss = found == NULL ? Py_NAN : PyFloat_AsDouble(found);
        done = !PyErr_Occurred();
        Py_XDECREF(found);
    }
    int64_t begin = state->forward_end;
    state->forward_end = 0;
    if (done && begin)
        done = add_record(writer, LOSS, hooks->loss_name, begin, now - begin, loss);
    else if (done && loss == loss)
        done = add_record(writer, SCALAR, hooks->loss_name, now, 0, loss);
    if (!done) { /* Ctrl-C, since all that Python does here catches its own faults */
        state->forward = state->before_pass;
        state->backward = hooks->backward_open = 0;
    }
    Py_DECREF((PyObject *)state);
    if (!done)
        return NULL;
    return Py_NewRef(Py_True);
}

static PyObject *hooks_pass_ends(PyObject *self, PyObject *Py_UNUSED(unused))
{
    StepHooks *hooks = (StepHooks *)self;
    int64_t now = clock_ns();
    ThreadState *state = current_state(hooks);
    SpanWriter *writer = writer_of(state);
    if (writer != NULL && state->pass_began && hooks->deferred == Py_None && hooks->predicting == Py_False &&
        !PyList_Size(hooks->before_end) && close_span(writer, now, hooks->backward_code, Py_NAN, TRAIN)) {
        state->forward = state->before_pass;
        state->backward = hooks->backward_open = 0;
        return Py_NewRef(Py_None);
    }
    return call_python(self, "end_pass", PyTuple_New(0));
}

/* -- the type */

static PyObject *hooks_current(PyObject *self, void *Py_UNUSED(unused))
{
    ThreadState *state = current_state((StepHooks *)self);
    if (state != NULL)
        return Py_NewRef((PyObject *)state);
    PyErr_Clear();
    return PyObject_GetAttrString(((StepHooks *)self)->local, "current");
}

#define OBJECTS(DO)                                                                                                    \
    DO(local) DO(logged_names) DO(tensor) DO(observed) DO(modes) DO(item) DO(losses) DO(before_step) DO(after_step)         \
    DO(boundary_calls) DO(pauses) DO(rate) DO(sole_type) DO(on_forward) DO(model_codes) DO(evaluated) DO(look) DO(scaled) DO(deferred) DO(before_end) \
    DO(predicting)

static PyObject *hooks_new(PyTypeObject *type, PyObject *Py_UNUSED(given), PyObject *Py_UNUSED(named))
{
    StepHooks *hooks = (StepHooks *)allocate(type);
    if (hooks == NULL)
        return NULL;
#define START(name) hooks->name = Py_NewRef(Py_None);
    OBJECTS(START)
    return (PyObject *)hooks;
}

static int hooks_traverse(PyObject *self, visitproc visit, void *arg)
{
    StepHooks *hooks = (StepHooks *)self;
#define VISIT(name) Py_VISIT(hooks->name);
    OBJECTS(VISIT)
    Py_VISIT((PyObject *)hooks->session);
    Py_VISIT(Py_TYPE(self));
    return 0;
}

static int hooks_clear(PyObject *self)
{
    StepHooks *hooks = (StepHooks *)self;
    if (hooks->last != NULL)
        hooks->last->home = NULL;
    hooks->last = NULL;
#define CLEAR(name)                                                                                                    \
    {                                                                                                                  \
        PyObject *before = hooks->name;                                                                                \
        hooks->name = Py_NewRef(Py_None);                                                                              \
        Py_XDECREF(before);                                                                                            \
    }
    hooks->sole = 0; /* from now on no optimizer matches */
    OBJECTS(CLEAR)
    Py_CLEAR(hooks->session);
    return 0;
}

static void hooks_dealloc(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    hooks_clear(self);
#define RELEASE(name) Py_DECREF(((StepHooks *)self)->name);
    OBJECTS(RELEASE)
    release(self);
}

static PyObject *get_session(PyObject *self, void *Py_UNUSED(unused))
{
    StepCounter *session = ((StepHooks *)self)->session;
    return Py_NewRef(session == NULL ? Py_None : (PyObject *)session);
}

static int set_session(PyObject *self, PyObject *to, void *Py_UNUSED(unused))
{
    if (to == NULL || !PyObject_TypeCheck(to, counter_type)) {
        PyErr_SetString(PyExc_TypeError, "session must be a StepCounter");
        return -1;
    }
    StepCounter *before = ((StepHooks *)self)->session;
    ((StepHooks *)self)->session = (StepCounter *)Py_NewRef(to);
    Py_XDECREF((PyObject *)before);
    return 0;
}

#define NUMBER(name) MEMBER(name, T_LONGLONG, StepHooks, 0)
#define OBJECT(name) MEMBER(name, T_OBJECT, StepHooks, 0)
static PyMemberDef hooks_members[] = {
    OBJECTS(OBJECT) NUMBER(sole) NUMBER(sole_code) NUMBER(wake_at) NUMBER(inner_steps) NUMBER(rate_left)
        NUMBER(backward_code) NUMBER(next_code) NUMBER(loss_name) NUMBER(healthy_step)
            MEMBER(healthy_loss, T_DOUBLE, StepHooks, 0) MEMBER(backward_open, T_BOOL, StepHooks, 0)
                MEMBER(evaluates, T_BOOL, StepHooks, 0){NULL, 0, 0, 0, NULL}};
static PyGetSetDef hooks_gets[] = {{"current", hooks_current, NULL, NULL, NULL},
                                   {"session", get_session, set_session, NULL, NULL},
                                   {NULL, NULL, NULL, NULL, NULL}};
static PyMethodDef hooks_methods[] = {{"next_begins", hooks_next_begins, METH_NOARGS, NULL},
                                      {"next_ends", hooks_next_ends, METH_O, NULL},
                                      {"call_begins", hooks_call_begins, METH_O, NULL},
                                      {"call_ends", hooks_call_ends, METH_O, NULL},
                                      {"optimizer_begins", hooks_optimizer_begins, METH_O, NULL},
                                      {"optimizer_ended", hooks_optimizer_ended, METH_O, NULL},
                                      {"pass_begins", hooks_pass_begins, METH_O, NULL},
                                      {"pass_ends", hooks_pass_ends, METH_NOARGS, NULL},
                                      {NULL, NULL, 0, NULL}};
static PyType_Slot hooks_slots[] = {{Py_tp_new, hooks_new},           {Py_tp_methods, hooks_methods},
                                    {Py_tp_members, hooks_members},   {Py_tp_getset, hooks_gets},
                                    {Py_tp_traverse, hooks_traverse}, {Py_tp_clear, hooks_clear},
                                    {Py_tp_dealloc, hooks_dealloc},   {0, NULL}};
static PyType_Spec hooks_spec = {"holter.recorder.native._hotpath.StepHooks", sizeof(StepHooks), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, hooks_slots};

int add_step_hooks(PyObject *module)
{
    IS_CPU = PyUnicode_InternFromString("is_cpu");
    LOADER = PyUnicode_InternFromString("_holter_loader");
    LR = PyUnicode_InternFromString("lr");
    ON = PyUnicode_InternFromString("on");
    PARAM_GROUPS = PyUnicode_InternFromString("param_groups");
    TRAINING = PyUnicode_InternFromString("training");
    PyObject *hooks_type = PyErr_Occurred() || !add_thread_state(module) ? NULL : PyType_FromSpec(&hooks_spec);
    return hooks_type != NULL && !PyModule_AddObject(module, "StepHooks", hooks_type);
}
