/* What `At` and `Usual` of usual.py keep, and the hooks of a usual step: a backward pass that begins from a loss on
   the host, the one optimizer that ends every step. In a step of ten milliseconds little of us is in the caches
   when a hook is called, so that each thing that it looks at costs; here these are few. What is unusual is left to
   Python, before anything is done: docs/decisions/0057. */

#include "../../pen.h"

enum { LOSS = 5, SCALAR = 17 };

typedef struct Usual Usual;

typedef struct {
    PyObject_HEAD
    PyObject *marks, *begin, *end_of, *add, *fail;
    Usual *home; /* whose last thread this is, while it is */
    Pen *pen;    /* that of the marks, where it is one of ours */
    unsigned long thread;
    long long depth, fetching, optimizers, began, optimizer, forward_end, pass_began;
    char forward, backward, loading, moving, saving, waiting, scaling, seen, inside, heard;
} At;

struct Usual {
    PyObject_HEAD
    At *last; /* borrowed: it says so when it goes */
    Steps *session;
    PyObject *local, *told, *tensor, *observed, *modes, *losses;
    PyObject *before_step, *after_step, *boundary_calls, *pauses, *rate, *sole_type;
    PyObject *evaluated, *look, *scaled, *deferred, *before_end, *predicting;
    long long sole, sole_code, wake_at, inner_steps, rate_left, backward_code, loss_name, healthy_step;
    double healthy_loss;
    char backward_open;
};

static PyTypeObject *at_type;
static PyObject *AT, *IS_CPU, *ITEM, *LR, *ON, *PARAM_GROUPS;

/* -- the calling thread's state */

static int at_traverse(PyObject *self, visitproc visit, void *arg)
{
    At *at = (At *)self;
    Py_VISIT(at->marks);
    Py_VISIT(at->begin);
    Py_VISIT(at->end_of);
    Py_VISIT(at->add);
    Py_VISIT(at->fail);
    Py_VISIT((PyObject *)at->pen);
    Py_VISIT(Py_TYPE(self));
    return 0;
}

static int at_clear(PyObject *self)
{
    At *at = (At *)self;
    if (at->home != NULL && at->home->last == at)
        at->home->last = NULL;
    at->home = NULL;
    Py_CLEAR(at->marks);
    Py_CLEAR(at->begin);
    Py_CLEAR(at->end_of);
    Py_CLEAR(at->add);
    Py_CLEAR(at->fail);
    Py_CLEAR(at->pen);
    return 0;
}

static void at_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    at_clear(self);
    freefunc give_back = (freefunc)PyType_GetSlot(type, Py_tp_free);
    give_back(self);
    Py_DECREF(type);
}

static PyObject *at_new(PyTypeObject *type, PyObject *given, PyObject *named)
{
    PyObject *marks;
    if (!PyArg_ParseTuple(given, "O", &marks))
        return NULL;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    At *at = (At *)allocate(type, 0);
    if (at == NULL)
        return NULL;
    at->marks = Py_NewRef(marks);
    at->seen = 1;
    at->thread = PyThread_get_thread_ident();
    PyObject *pen = PyObject_GetAttrString(marks, "pen");
    at->begin = PyObject_GetAttrString(marks, "begin");
    at->end_of = PyObject_GetAttrString(marks, "end_of");
    at->add = PyObject_GetAttrString(marks, "add");
    at->fail = PyObject_GetAttrString(marks, "fail");
    if (pen != NULL && Py_TYPE(pen) == pen_type)
        at->pen = (Pen *)pen;
    else
        Py_XDECREF(pen);
    if (PyErr_Occurred()) {
        Py_DECREF(at);
        return NULL;
    }
    return (PyObject *)at;
}

static PyMemberDef at_members[] = {{"marks", T_OBJECT, offsetof(At, marks), READONLY, NULL},
                                   {"begin", T_OBJECT, offsetof(At, begin), 0, NULL},
                                   {"end_of", T_OBJECT, offsetof(At, end_of), 0, NULL},
                                   {"add", T_OBJECT, offsetof(At, add), 0, NULL},
                                   {"fail", T_OBJECT, offsetof(At, fail), 0, NULL},
                                   {"depth", T_LONGLONG, offsetof(At, depth), 0, NULL},
                                   {"fetching", T_LONGLONG, offsetof(At, fetching), 0, NULL},
                                   {"optimizers", T_LONGLONG, offsetof(At, optimizers), 0, NULL},
                                   {"began", T_LONGLONG, offsetof(At, began), 0, NULL},
                                   {"optimizer", T_LONGLONG, offsetof(At, optimizer), 0, NULL},
                                   {"forward_end", T_LONGLONG, offsetof(At, forward_end), 0, NULL},
                                   {"pass_began", T_LONGLONG, offsetof(At, pass_began), 0, NULL},
                                   {"forward", T_BOOL, offsetof(At, forward), 0, NULL},
                                   {"backward", T_BOOL, offsetof(At, backward), 0, NULL},
                                   {"loading", T_BOOL, offsetof(At, loading), 0, NULL},
                                   {"moving", T_BOOL, offsetof(At, moving), 0, NULL},
                                   {"saving", T_BOOL, offsetof(At, saving), 0, NULL},
                                   {"waiting", T_BOOL, offsetof(At, waiting), 0, NULL},
                                   {"scaling", T_BOOL, offsetof(At, scaling), 0, NULL},
                                   {"seen", T_BOOL, offsetof(At, seen), 0, NULL},
                                   {"inside", T_BOOL, offsetof(At, inside), 0, NULL},
                                   {"heard", T_BOOL, offsetof(At, heard), 0, NULL},
                                   {NULL, 0, 0, 0, NULL}};
static PyType_Slot at_slots[] = {{Py_tp_new, at_new},           {Py_tp_members, at_members},
                                 {Py_tp_traverse, at_traverse}, {Py_tp_clear, at_clear},
                                 {Py_tp_dealloc, at_dealloc},   {0, NULL}};
static PyType_Spec at_spec = {"holter.recorder._pen.At", sizeof(At), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                              at_slots};

/* The calling thread's; NULL when there is none of ours, and then an exception or none. */
static At *here(Usual *usual)
{
    At *at = usual->last;
    unsigned long thread = PyThread_get_thread_ident();
    if (at != NULL && at->thread == thread)
        return at;
    PyObject *found = usual->local == NULL ? NULL : PyObject_GetAttr(usual->local, AT);
    if (found == NULL)
        return NULL;
    at = Py_TYPE(found) == at_type ? (At *)found : NULL;
    Py_DECREF(found); /* its thread keeps it */
    if (at == NULL || at->thread != thread || (at->home != NULL && at->home != usual))
        return NULL;
    at->home = usual;
    usual->last = at;
    return at;
}

/* The pen to write with; NULL when that is not enough, or not possible. */
static Pen *pen_of(At *at)
{
    return at == NULL || at->heard ? NULL : at->pen;
}

static PyObject *usual_at(PyObject *self, void *unused)
{
    At *at = here((Usual *)self);
    if (at != NULL)
        return Py_NewRef((PyObject *)at);
    PyErr_Clear();
    return PyObject_GetAttr(((Usual *)self)->local, AT);
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
        Py_RETURN_FALSE;
    At *at = here(usual);
    Pen *pen = pen_of(at);
    if (pen == NULL || at->scaling || at->optimizers || !open_span(pen, now, usual->sole_code)) {
        PyErr_Clear();
        Py_RETURN_FALSE;
    }
    at->seen = 1;
    at->forward_end = 0;
    at->optimizers = 1;
    at->optimizer = usual->sole;
    at->began = now;
    Py_RETURN_TRUE;
}

/* Whether the learning rate is the object that was noted last, not too long ago. */
static int same_rate(Usual *usual, PyObject *optimizer)
{
    PyObject *groups = usual->rate_left > 0 ? PyObject_GetAttr(optimizer, PARAM_GROUPS) : NULL;
    PyObject *group = groups != NULL && PyList_Check(groups) ? PyList_GetItem(groups, 0) : NULL;
    int same = group != NULL && PyDict_Check(group) && PyDict_GetItemWithError(group, LR) == usual->rate;
    Py_XDECREF(groups);
    PyErr_Clear();
    return same;
}

static PyObject *usual_optimizer_ended(PyObject *self, PyObject *optimizer)
{
    Usual *usual = (Usual *)self;
    Steps *steps = usual->session;
    int64_t now = clock_ns();
    if (!is_sole(usual, optimizer) || usual->after_step != Py_None || usual->backward_open || steps == NULL ||
        steps->manual_steps || !steps->since || steps->step >= usual->wake_at || PyList_Size(usual->pauses) ||
        PySet_Size(usual->boundary_calls) || !same_rate(usual, optimizer)) {
        PyErr_Clear();
        Py_RETURN_FALSE;
    }
    At *at = here(usual);
    Pen *pen = pen_of(at);
    /* The end of the step is told by the record of its optimizer. */
    if (pen == NULL || at->scaling || at->optimizers != 1 ||
        !close_span(pen, now, usual->sole_code, (double)(at->began - steps->since), TRAIN)) {
        PyErr_Clear();
        Py_RETURN_FALSE;
    }
    at->optimizers = 0;
    usual->rate_left--;
    usual->inner_steps++;
    if (!begin_next_step(steps, now))
        return NULL;
    Py_RETURN_TRUE;
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
    PyObject *item = on_host == Py_True ? PyObject_GetAttr(loss, ITEM) : NULL;
    PyObject *found = item == NULL ? NULL : PyObject_CallObject(item, NULL);
    int finite = 0;
    if (found != NULL && PyFloat_CheckExact(found)) {
        *value = PyFloat_AsDouble(found);
        finite = *value - *value == 0.0;
    }
    Py_XDECREF(found);
    Py_XDECREF(item);
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
    PyObject *rest = Py_BuildValue("(iLLLdOi)", phase, name, (long long)begin, (long long)duration, value, Py_None, TRAIN);
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
        (!at->backward && !open_span(pen, now, usual->backward_code))) {
        PyErr_Clear();
        return ask(self, "begin_pass", PyTuple_Pack(1, tensors));
    }
    if (at->backward)
        Py_RETURN_FALSE;
    at->inside = at->forward;
    at->backward = at->forward = at->seen = usual->backward_open = 1; /* what is recomputed is no forward pass */
    at->pass_began = now;
    double loss = Py_NAN;
    int done = 1;
    Py_INCREF((PyObject *)at);
    if (!read_loss(usual, tensors, &loss)) {
        PyErr_Clear();
        PyObject *found = ask(self, "read_loss", Py_BuildValue("(OOL)", tensors, (PyObject *)at, (long long)now));
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
        at->forward = at->inside;
        at->backward = usual->backward_open = 0;
    }
    Py_DECREF((PyObject *)at);
    if (!done)
        return NULL;
    Py_RETURN_TRUE;
}

static PyObject *usual_pass_ends(PyObject *self, PyObject *unused)
{
    Usual *usual = (Usual *)self;
    int64_t now = clock_ns();
    At *at = here(usual);
    Pen *pen = pen_of(at);
    if (pen != NULL && at->pass_began && usual->deferred == Py_None && usual->predicting == Py_False &&
        !PyList_Size(usual->before_end) && close_span(pen, now, usual->backward_code, Py_NAN, TRAIN)) {
        at->forward = at->inside;
        at->backward = usual->backward_open = 0;
        Py_RETURN_NONE;
    }
    PyErr_Clear();
    return ask(self, "end_pass", PyTuple_New(0));
}

/* -- the type */

#define OBJECTS(DO)                                                                                                    \
    DO(local) DO(told) DO(tensor) DO(observed) DO(modes) DO(losses) DO(before_step) DO(after_step)         \
    DO(boundary_calls) DO(pauses) DO(rate) DO(sole_type) DO(evaluated) DO(look) DO(scaled) DO(deferred) DO(before_end) \
    DO(predicting)

static PyObject *usual_new(PyTypeObject *type, PyObject *given, PyObject *named)
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

static PyObject *get_session(PyObject *self, void *unused)
{
    Steps *session = ((Usual *)self)->session;
    return Py_NewRef(session == NULL ? Py_None : (PyObject *)session);
}

static int set_session(PyObject *self, PyObject *to, void *unused)
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
        NUMBER(backward_code) NUMBER(loss_name) NUMBER(healthy_step){"healthy_loss", T_DOUBLE,
                                                                     offsetof(Usual, healthy_loss), 0, NULL},
    {"backward_open", T_BOOL, offsetof(Usual, backward_open), 0, NULL},
    {NULL, 0, 0, 0, NULL}};
static PyGetSetDef usual_gets[] = {{"at", usual_at, NULL, NULL, NULL},
                                   {"session", get_session, set_session, NULL, NULL},
                                   {NULL, NULL, NULL, NULL, NULL}};
static PyMethodDef usual_methods[] = {{"optimizer_begins", usual_optimizer_begins, METH_O, NULL},
                                      {"optimizer_ended", usual_optimizer_ended, METH_O, NULL},
                                      {"pass_begins", usual_pass_begins, METH_O, NULL},
                                      {"pass_ends", usual_pass_ends, METH_NOARGS, NULL},
                                      {NULL, NULL, 0, NULL}};
static PyType_Slot usual_slots[] = {{Py_tp_new, usual_new},           {Py_tp_methods, usual_methods},
                                    {Py_tp_members, usual_members},   {Py_tp_getset, usual_gets},
                                    {Py_tp_traverse, usual_traverse}, {Py_tp_clear, usual_clear},
                                    {Py_tp_dealloc, usual_dealloc},   {0, NULL}};
static PyType_Spec usual_spec = {"holter.recorder._pen.Usual", sizeof(Usual), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, usual_slots};

int add_usual(PyObject *module)
{
    AT = PyUnicode_InternFromString("at");
    IS_CPU = PyUnicode_InternFromString("is_cpu");
    ITEM = PyUnicode_InternFromString("item");
    LR = PyUnicode_InternFromString("lr");
    ON = PyUnicode_InternFromString("on");
    PARAM_GROUPS = PyUnicode_InternFromString("param_groups");
    at_type = PyErr_Occurred() ? NULL : (PyTypeObject *)PyType_FromSpec(&at_spec);
    PyObject *usual_type = at_type == NULL ? NULL : PyType_FromSpec(&usual_spec);
    return usual_type != NULL && !PyModule_AddObject(module, "At", Py_NewRef((PyObject *)at_type)) &&
           !PyModule_AddObject(module, "Usual", usual_type);
}
