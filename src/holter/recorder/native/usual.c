/* The hooks of a usual step: a batch is asked for, a model that trains is called, a backward pass begins from a loss
   on the host, the one optimizer that ends every step has ended it. In a step of ten milliseconds little of us is in
   the caches when a hook is called, so that each thing that it looks at costs; here these are few. What is unusual is
   left to Python, before anything is done: docs/decisions/0057. */

#include "usual.h"

static PyObject *IS_CPU, *LOADER, *LR, *ON, *PARAM_GROUPS, *TRAINING;

/* Forget an error, which will show in Python again if it is one; 0 when it must go on, as Ctrl-C must. */
static int forgotten(void)
{
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception))
        return 0;
    PyErr_Clear();
    return 1;
}

/* Have Python do it. */
static PyObject *leave(PyObject *self, const char *method, PyObject *arguments)
{
    if (forgotten())
        return ask(self, method, arguments);
    Py_XDECREF(arguments);
    return NULL;
}

/* Say that nothing was done. */
static PyObject *unusual(void)
{
    if (!forgotten())
        return NULL;
    return Py_NewRef(Py_False);
}

/* -- a batch */

static PyObject *usual_next_begins(PyObject *self, PyObject *Py_UNUSED(unused))
{
    Usual *usual = (Usual *)self;
    int64_t now = clock_ns();
    At *at = here(usual);
    Pen *pen = pen_of(at);
    if (at != NULL && at->loading)
        return Py_NewRef(Py_False);
    if (pen == NULL || at->optimizers || !at->seen || !open_span(pen, now, usual->next_code)) {
        return leave(self, "begin_next", PyTuple_New(0));
    }
    at->before_next = at->forward;
    at->loading = at->forward = at->asked = 1; /* models that a dataset calls are not the one that trains */
    at->seen = 0;
    at->forward_end = 0;
    return Py_NewRef(Py_True);
}

static PyObject *usual_next_ends(PyObject *self, PyObject *iterator)
{
    Usual *usual = (Usual *)self;
    int64_t now = clock_ns();
    At *at = here(usual);
    Pen *pen = pen_of(at);
    PyObject *loader = pen != NULL && at->asked ? PyObject_GetAttr(iterator, LOADER) : NULL;
    int known = loader != NULL && PyFloat_CheckExact(loader);
    double number = known ? PyFloat_AsDouble(loader) : 0.0;
    Py_XDECREF(loader);
    if (known && close_span(pen, now, usual->next_code, number, TRAIN)) {
        at->loading = at->asked = 0;
        at->forward = at->before_next;
        return Py_NewRef(Py_None);
    }
    return leave(self, "end_next", Py_BuildValue("(O)", iterator));
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

static PyObject *usual_call_begins(PyObject *self, PyObject *module)
{
    Usual *usual = (Usual *)self;
    int64_t now = clock_ns();
    At *at = here(usual);
    if (at != NULL && at->forward)
        return Py_NewRef(Py_False);
    Pen *pen = pen_of(at);
    PyObject *known = PyDict_Check(usual->model_codes)
                          ? PyDict_GetItemWithError(usual->model_codes, (PyObject *)Py_TYPE(module))
                          : NULL;
    long long code = known == NULL ? -1 : PyLong_AsLongLong(known);
    if (pen == NULL || code < 0 || usual->predicting != Py_False || usual->on_forward != Py_None ||
        usual->evaluates || trains(module) != 1 || !open_span(pen, now, code)) {
        return leave(self, "begin_call", Py_BuildValue("(O)", module));
    }
    at->forward = at->seen = 1;
    at->call_code = code;
    return Py_NewRef(Py_True);
}

static PyObject *usual_call_ends(PyObject *self, PyObject *module)
{
    Usual *usual = (Usual *)self;
    int64_t now = clock_ns();
    At *at = here(usual);
    Pen *pen = pen_of(at);
    if (pen != NULL && at->call_code && usual->predicting == Py_False && trains(module) == 1 &&
        close_span(pen, now, at->call_code, Py_NAN, TRAIN)) {
        at->forward = 0;
        at->forward_end = now;
        return Py_NewRef(Py_None);
    }
    return leave(self, "end_call", Py_BuildValue("(O)", module));
}

/* -- the one optimizer that ends every step */

static int is_sole(Usual *usual, PyObject *optimizer)
{
    return (long long)(intptr_t)optimizer == usual->sole && (PyObject *)Py_TYPE(optimizer) == usual->sole_type;
}

static PyObject *usual_optimizer_begins(PyObject *self, PyObject *optimizer)
{
    Usual *usual = (Usual *)self;
    int64_t now = clock_ns();
    if (!is_sole(usual, optimizer) || usual->before_step != Py_None)
        return Py_NewRef(Py_False);
    At *at = here(usual);
    Pen *pen = pen_of(at);
    if (pen == NULL || at->scaling || at->optimizers || !open_span(pen, now, usual->sole_code))
        return unusual();
    at->seen = 1;
    at->forward_end = 0;
    at->optimizers = 1;
    at->optimizer = usual->sole;
    at->began = now;
    return Py_NewRef(Py_True);
}

/* Whether the learning rate is the object that was noted last, not too long ago. */
static int same_rate(Usual *usual, PyObject *optimizer)
{
    PyObject *groups = usual->rate_left > 0 ? PyObject_GetAttr(optimizer, PARAM_GROUPS) : NULL;
    PyObject *group = groups != NULL && PyList_Check(groups) ? PyList_GetItem(groups, 0) : NULL;
    int same = group != NULL && PyDict_Check(group) && PyDict_GetItemWithError(group, LR) == usual->rate;
    Py_XDECREF(groups);
    return same;
}

static PyObject *usual_optimizer_ended(PyObject *self, PyObject *optimizer)
{
    Usual *usual = (Usual *)self;
    Steps *steps = usual->session;
    int64_t now = clock_ns();
    if (!is_sole(usual, optimizer) || usual->after_step != Py_None || usual->backward_open || steps == NULL ||
        steps->manual_steps || !steps->since || steps->step >= usual->wake_at || PyList_Size(usual->pauses) ||
        PySet_Size(usual->boundary_calls) || !same_rate(usual, optimizer))
        return unusual();
    At *at = here(usual);
    Pen *pen = pen_of(at);
    /* The end of the step is told by the record of its optimizer. */
    if (pen == NULL || at->scaling || at->optimizers != 1 ||
        !close_span(pen, now, usual->sole_code, (double)step_lead(steps->since, at->began), TRAIN))
        return unusual();
    at->optimizers = 0;
    usual->rate_left--;
    usual->inner_steps++;
    if (!begin_next_step(steps, now))
        return NULL;
    return Py_NewRef(Py_True);
}

/* -- a backward pass */

/* Read a loss on the host, finite, that nobody else wants to see; 0 when it is none. */
static int read_loss(Usual *usual, PyObject *loss, double *value)
{
    if ((PyObject *)Py_TYPE(loss) != usual->tensor || usual->look != Py_None || usual->scaled != Py_None ||
        PySet_Size(usual->told) || usual->session == NULL)
        return 0;
    PyObject *on = PyObject_GetAttr(usual->losses, ON);
    PyObject *observed = on == Py_True ? PyObject_CallFunctionObjArgs(usual->observed, loss, NULL) : NULL;
    PyObject *modes = observed == Py_False ? PyObject_CallFunctionObjArgs(usual->modes, NULL) : NULL;
    PyObject *on_host = modes != NULL && PyObject_Not(modes) == 1 ? PyObject_GetAttr(loss, IS_CPU) : NULL;
    PyObject *found = on_host == Py_True ? PyObject_CallFunctionObjArgs(usual->item, loss, NULL) : NULL;
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
    usual->healthy_step = usual->session->step;
    usual->healthy_loss = *value;
    return 1;
}

static int add_record(Pen *pen, int phase, long long name, int64_t begin, int64_t duration, double value)
{
    if (write_record(pen, begin, duration, value, tail_of(phase, name, TRAIN, pen->low_step)))
        return 1;
    PyObject *rest = Py_BuildValue("(iLLLd)", phase, name, (long long)begin, (long long)duration, value);
    PyObject *added = ask(pen->rare, "add_slow", rest);
    Py_XDECREF(added);
    return added != NULL;
}

static PyObject *usual_pass_begins(PyObject *self, PyObject *tensors)
{
    Usual *usual = (Usual *)self;
    int64_t now = clock_ns();
    At *at = here(usual);
    Pen *pen = pen_of(at);
    if (pen == NULL || PyList_Size(usual->evaluated) ||
        (!at->backward && !open_span(pen, now, usual->backward_code)))
        return leave(self, "begin_pass", Py_BuildValue("(O)", tensors));
    if (at->backward)
        return Py_NewRef(Py_False);
    at->before_pass = at->forward;
    at->backward = at->forward = at->seen = usual->backward_open = 1; /* what is recomputed is no forward pass */
    at->pass_began = now;
    double loss = Py_NAN;
    int done = 1;
    Py_INCREF((PyObject *)at);
    if (!read_loss(usual, tensors, &loss)) {
        PyObject *found = leave(self, "read_loss", Py_BuildValue("(OOL)", tensors, (PyObject *)at, (long long)now));
        loss = found == NULL ? Py_NAN : PyFloat_AsDouble(found);
        done = !PyErr_Occurred();
        Py_XDECREF(found);
    }
    int64_t begin = at->forward_end;
    at->forward_end = 0;
    if (done && begin)
        done = add_record(pen, LOSS, usual->loss_name, begin, now - begin, loss);
    else if (done && loss == loss)
        done = add_record(pen, SCALAR, usual->loss_name, now, 0, loss);
    if (!done) { /* Ctrl-C, since all that Python does here catches its own faults */
        at->forward = at->before_pass;
        at->backward = usual->backward_open = 0;
    }
    Py_DECREF((PyObject *)at);
    if (!done)
        return NULL;
    return Py_NewRef(Py_True);
}

static PyObject *usual_pass_ends(PyObject *self, PyObject *Py_UNUSED(unused))
{
    Usual *usual = (Usual *)self;
    int64_t now = clock_ns();
    At *at = here(usual);
    Pen *pen = pen_of(at);
    if (pen != NULL && at->pass_began && usual->deferred == Py_None && usual->predicting == Py_False &&
        !PyList_Size(usual->before_end) && close_span(pen, now, usual->backward_code, Py_NAN, TRAIN)) {
        at->forward = at->before_pass;
        at->backward = usual->backward_open = 0;
        return Py_NewRef(Py_None);
    }
    return leave(self, "end_pass", PyTuple_New(0));
}

/* -- the type */

static PyObject *usual_at(PyObject *self, void *Py_UNUSED(unused))
{
    At *at = here((Usual *)self);
    if (at != NULL)
        return Py_NewRef((PyObject *)at);
    PyErr_Clear();
    return PyObject_GetAttrString(((Usual *)self)->local, "at");
}

#define OBJECTS(DO)                                                                                                    \
    DO(local) DO(told) DO(tensor) DO(observed) DO(modes) DO(item) DO(losses) DO(before_step) DO(after_step)         \
    DO(boundary_calls) DO(pauses) DO(rate) DO(sole_type) DO(on_forward) DO(model_codes) DO(evaluated) DO(look) DO(scaled) DO(deferred) DO(before_end) \
    DO(predicting)

static PyObject *usual_new(PyTypeObject *type, PyObject *Py_UNUSED(given), PyObject *Py_UNUSED(named))
{
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Usual *usual = (Usual *)allocate(type, 0);
    if (usual == NULL)
        return NULL;
#define START(name) usual->name = Py_NewRef(Py_None);
    OBJECTS(START)
    return (PyObject *)usual;
}

static int usual_traverse(PyObject *self, visitproc visit, void *arg)
{
    Usual *usual = (Usual *)self;
#define VISIT(name) Py_VISIT(usual->name);
    OBJECTS(VISIT)
    Py_VISIT((PyObject *)usual->session);
    Py_VISIT(Py_TYPE(self));
    return 0;
}

static int usual_clear(PyObject *self)
{
    Usual *usual = (Usual *)self;
    if (usual->last != NULL)
        usual->last->home = NULL;
    usual->last = NULL;
#define CLEAR(name)                                                                                                    \
    {                                                                                                                  \
        PyObject *before = usual->name;                                                                                \
        usual->name = Py_NewRef(Py_None);                                                                              \
        Py_XDECREF(before);                                                                                            \
    }
    usual->sole = 0; /* so that no optimizer is usual any more */
    OBJECTS(CLEAR)
    Py_CLEAR(usual->session);
    return 0;
}

static void usual_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    usual_clear(self);
#define RELEASE(name) Py_DECREF(((Usual *)self)->name);
    OBJECTS(RELEASE)
    freefunc give_back = (freefunc)PyType_GetSlot(type, Py_tp_free);
    give_back(self);
    Py_DECREF(type);
}

static PyObject *get_session(PyObject *self, void *Py_UNUSED(unused))
{
    Steps *session = ((Usual *)self)->session;
    return Py_NewRef(session == NULL ? Py_None : (PyObject *)session);
}

static int set_session(PyObject *self, PyObject *to, void *Py_UNUSED(unused))
{
    if (to == NULL || !PyObject_TypeCheck(to, steps_type)) {
        PyErr_SetString(PyExc_TypeError, "session must be one that counts steps");
        return -1;
    }
    Steps *before = ((Usual *)self)->session;
    ((Usual *)self)->session = (Steps *)Py_NewRef(to);
    Py_XDECREF((PyObject *)before);
    return 0;
}

#define NUMBER(name) {#name, T_LONGLONG, offsetof(Usual, name), 0, NULL},
#define OBJECT(name) {#name, T_OBJECT, offsetof(Usual, name), 0, NULL},
static PyMemberDef usual_members[] = {
    OBJECTS(OBJECT) NUMBER(sole) NUMBER(sole_code) NUMBER(wake_at) NUMBER(inner_steps) NUMBER(rate_left)
        NUMBER(backward_code) NUMBER(next_code) NUMBER(loss_name) NUMBER(healthy_step){"healthy_loss", T_DOUBLE,
                                                                     offsetof(Usual, healthy_loss), 0, NULL},
    {"backward_open", T_BOOL, offsetof(Usual, backward_open), 0, NULL},
    {"evaluates", T_BOOL, offsetof(Usual, evaluates), 0, NULL},
    {NULL, 0, 0, 0, NULL}};
static PyGetSetDef usual_gets[] = {{"at", usual_at, NULL, NULL, NULL},
                                   {"session", get_session, set_session, NULL, NULL},
                                   {NULL, NULL, NULL, NULL, NULL}};
static PyMethodDef usual_methods[] = {{"next_begins", usual_next_begins, METH_NOARGS, NULL},
                                      {"next_ends", usual_next_ends, METH_O, NULL},
                                      {"call_begins", usual_call_begins, METH_O, NULL},
                                      {"call_ends", usual_call_ends, METH_O, NULL},
                                      {"optimizer_begins", usual_optimizer_begins, METH_O, NULL},
                                      {"optimizer_ended", usual_optimizer_ended, METH_O, NULL},
                                      {"pass_begins", usual_pass_begins, METH_O, NULL},
                                      {"pass_ends", usual_pass_ends, METH_NOARGS, NULL},
                                      {NULL, NULL, 0, NULL}};
static PyType_Slot usual_slots[] = {{Py_tp_new, usual_new},           {Py_tp_methods, usual_methods},
                                    {Py_tp_members, usual_members},   {Py_tp_getset, usual_gets},
                                    {Py_tp_traverse, usual_traverse}, {Py_tp_clear, usual_clear},
                                    {Py_tp_dealloc, usual_dealloc},   {0, NULL}};
static PyType_Spec usual_spec = {"holter.recorder.native._pen.Usual", sizeof(Usual), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, usual_slots};

int add_usual(PyObject *module)
{
    IS_CPU = PyUnicode_InternFromString("is_cpu");
    LOADER = PyUnicode_InternFromString("_holter_loader");
    LR = PyUnicode_InternFromString("lr");
    ON = PyUnicode_InternFromString("on");
    PARAM_GROUPS = PyUnicode_InternFromString("param_groups");
    TRAINING = PyUnicode_InternFromString("training");
    PyObject *usual_type = PyErr_Occurred() || !add_at(module) ? NULL : PyType_FromSpec(&usual_spec);
    return usual_type != NULL && !PyModule_AddObject(module, "Usual", usual_type);
}
