/* `At` of usual.py once more, compiled, and which is the calling thread's. */

#include "usual.h"

static PyTypeObject *at_type;

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

static PyObject *at_new(PyTypeObject *type, PyObject *given, PyObject *Py_UNUSED(named))
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
                                   {"asked", T_BOOL, offsetof(At, asked), 0, NULL},
                                   {"before_pass", T_BOOL, offsetof(At, before_pass), 0, NULL},
                                   {"before_next", T_BOOL, offsetof(At, before_next), 0, NULL},
                                   {"call_code", T_LONGLONG, offsetof(At, call_code), 0, NULL},
                                   {"heard", T_BOOL, offsetof(At, heard), 0, NULL},
                                   {NULL, 0, 0, 0, NULL}};
static PyType_Slot at_slots[] = {{Py_tp_new, at_new},           {Py_tp_members, at_members},
                                 {Py_tp_traverse, at_traverse}, {Py_tp_clear, at_clear},
                                 {Py_tp_dealloc, at_dealloc},   {0, NULL}};
static PyType_Spec at_spec = {"holter.recorder.native._pen.At", sizeof(At), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                              at_slots};

At *here(Usual *usual)
{
    At *at = usual->last;
    unsigned long thread = PyThread_get_thread_ident();
    /* A pen that serves nobody any more is that of a thread that has ended, whose number this one may have got. */
    if (at != NULL && at->thread == thread && (at->pen == NULL || (unsigned long)at->pen->thread == thread))
        return at;
    PyObject *found = usual->local == NULL ? NULL : PyObject_GetAttrString(usual->local, "at");
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

int add_at(PyObject *module)
{
    at_type = (PyTypeObject *)PyType_FromSpec(&at_spec);
    return at_type != NULL && !PyModule_AddObject(module, "At", Py_NewRef((PyObject *)at_type));
}
