/* Checks at the sites of code that may run ahead of its turn.
 *
 * A check stands at a site as its variant.  In a thread that works on no item it hands the operation on at once.  In
 * one that does, it hands it on if the same operation on the same types was let through here before; otherwise it asks
 * (in Python), which may wait for the item's turn, or give the item up by an exception.  It leaves no Python frame.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>
#include "own_error.h"

#ifdef _MSC_VER
#define THREAD_LOCAL __declspec(thread)
#else
#define THREAD_LOCAL _Thread_local
#endif

enum { CALL, BINARY, UNARY, INPLACE, GETITEM, SETITEM, RETURN, ITERATE };
enum { ONCE, ALWAYS, THEN, INSTEAD }; /* the answer: this time, whenever it is alike, tell it when it is done, or run `instead` */
enum { TYPES = 20, ENTRIES = 4, INSIDE = 4 };

typedef struct {             /* the types of some values, and of what is in those that are short tuples and lists */
    int count;
    signed char sizes[TYPES]; /* how many of the next are in this one; -1: it is no tuple or list */
    unsigned int versions[TYPES]; /* of classes that can change: a method that is exchanged is another operation */
    PyTypeObject *types[TYPES];
} Types;

typedef struct {
    PyObject *key;           /* what is called, or the function or type that it is a method of */
    void *method;            /* of a built-in method: its definition; of another one: its function */
    PyObject *held, *code;   /* that function, so that no other gets its address, and the code of what is called */
    unsigned int version;    /* of the class that is called, or whose instance is */
    PyObject *names;         /* of keywords: one tuple per place in the code */
    Types types;
} Entry;

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    int kind, used, next;
    int listed;              /* it stands in a loop whose turns run ahead: what it gives is written down, and given again */
    PyObject *site, *function, *inner, *ask;
    PyObject *again;         /* a draw that was let through: the method, its generator and its name, or None */
    PyObject *instead;       /* what the item runs, called with the item first, if that was the answer */
    Entry entries[ENTRIES];
} Check;

static THREAD_LOCAL PyObject *item = NULL; /* what this thread works on */
static THREAD_LOCAL PyObject *notes = NULL;  /* a list: listed checks and what they gave, in turn, in this thread */
static THREAD_LOCAL PyObject *script = NULL; /* such a list of a turn that has run ahead: its results are given again */
static THREAD_LOCAL Py_ssize_t next_line = 0;
static PyObject *stand_for_method = NULL;  /* the type of methods of values that are not computed yet */

/* What changes with a class and those that it comes from; 1 if it cannot change, 0 if that cannot be told now. */
static unsigned int version_of(PyTypeObject *t, int assign) {
    if (!(t->tp_flags & Py_TPFLAGS_HEAPTYPE) || (t->tp_flags & Py_TPFLAGS_IMMUTABLETYPE)) return 1;
#if PY_VERSION_HEX >= 0x030C0000
    if (assign) PyUnstable_Type_AssignVersionTag(t);
#else
    if (assign) {
        PyObject *any = PyUnicode_InternFromString("__name__");
        if (!any) { PyErr_Clear(); return 0; }
        _PyType_Lookup(t, any); /* which gives it a version */
        Py_DECREF(any);
    }
#endif
#if PY_VERSION_HEX < 0x030C0000 /* from then on a version that is not valid is 0, and later ones do not set the flag */
    if (!(t->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG)) return 0;
#endif
    return t->tp_version_tag == 1 ? 0 : t->tp_version_tag;
}

/* The version of the class behind a call; functions have their code instead. */
static unsigned int version_behind(PyObject *f, int assign) {
    if (PyType_Check(f)) return version_of((PyTypeObject *)f, assign);
    return PyFunction_Check(f) || PyMethod_Check(f) || PyCFunction_Check(f) ? 1 : version_of(Py_TYPE(f), assign);
}

static PyObject *code_behind(PyObject *f) { /* borrowed */
    if (PyMethod_Check(f)) f = PyMethod_GET_FUNCTION(f);
    return PyFunction_Check(f) ? PyFunction_GET_CODE(f) : NULL;
}

static void what_is_called(PyObject *f, PyObject **key, void **method) {
    *method = NULL;
    if (PyCFunction_CheckExact(f)) {
        PyObject *self = PyCFunction_GET_SELF(f);
        *method = (void *)((PyCFunctionObject *)f)->m_ml;
        *key = self && !PyModule_CheckExact(self) && !PyCapsule_CheckExact(self) ? (PyType_Check(self) ? self : (PyObject *)Py_TYPE(self)) : f;
    } else if (PyMethod_Check(f)) {
        *method = PyMethod_GET_FUNCTION(f);
        *key = (PyObject *)Py_TYPE(PyMethod_GET_SELF(f));
    } else if ((PyObject *)Py_TYPE(f) == stand_for_method) {
        *key = stand_for_method;
    } else {
        *key = f;
    }
}

static void types_of(PyObject *const *args, Py_ssize_t count, Types *t) { /* a count of -1: too many to be compared */
    t->count = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        int is_list = PyList_CheckExact(args[i]), is_row = is_list || PyTuple_CheckExact(args[i]);
        Py_ssize_t size = is_row ? Py_SIZE(args[i]) : -1;
        if (size > INSIDE || t->count + 1 + (size > 0 ? size : 0) > TYPES) { t->count = -1; return; }
        t->types[t->count] = Py_TYPE(args[i]);
        t->versions[t->count] = version_of(Py_TYPE(args[i]), 0);
        t->sizes[t->count++] = (signed char)size;
        for (Py_ssize_t k = 0; k < size; k++) {
            t->types[t->count] = Py_TYPE(is_list ? PyList_GET_ITEM(args[i], k) : PyTuple_GET_ITEM(args[i], k));
            t->versions[t->count] = version_of(t->types[t->count], 0);
            t->sizes[t->count++] = -1;
        }
    }
}

static int is_alike(const Entry *e, PyObject *key, void *method, const Types *t, PyObject *names) {
    if (e->key != key || e->method != method || e->names != names || e->types.count != t->count) return 0;
    return !memcmp(e->types.types, t->types, t->count * sizeof t->types[0]) &&
           !memcmp(e->types.versions, t->versions, t->count * sizeof t->versions[0]) &&
           !memcmp(e->types.sizes, t->sizes, t->count);
}

static int is_same_code(const Entry *e, PyObject *f) {
    return !f || (e->code == code_behind(f) && e->version == version_behind(f, 0));
}

static void drop(Entry *e) {
    for (int i = 0; i < e->types.count; i++) Py_CLEAR(e->types.types[i]);
    Py_CLEAR(e->key); Py_CLEAR(e->names); Py_CLEAR(e->held); Py_CLEAR(e->code);
    e->types.count = 0;
}

/* f: what is called, NULL for operators; code: that behind it when it was asked about. */
static void remember(Check *c, PyObject *f, PyObject *code, PyObject *key, void *method, Types *t, PyObject *names) {
    unsigned int version = f ? version_behind(f, 1) : 1;
    if (t->count < 0 || !version || (f && code_behind(f) != code)) return;
    for (int i = 0; i < t->count; i++)
        if (!(t->versions[i] = version_of(t->types[i], 1))) return;
    Entry *e = &c->entries[c->next];
    c->next = (c->next + 1) % ENTRIES;
    if (c->used < ENTRIES) c->used++;
    drop(e);
    Py_XINCREF(key); e->key = key; /* operators have none */
    Py_XINCREF(names); e->names = names;
    e->held = f && PyMethod_Check(f) ? PyMethod_GET_FUNCTION(f) : NULL;
    Py_XINCREF(e->held);
    Py_XINCREF(code); e->code = code;
    e->method = method; e->types = *t; e->version = version;
    for (int i = 0; i < t->count; i++) Py_INCREF(t->types[i]);
}

static PyObject *forward(Check *c, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    if (c->inner && c->inner != Py_None) return PyObject_Vectorcall(c->inner, args, n, names);
    switch (c->kind) {
    case CALL: return PyObject_Vectorcall(args[0], args + 1, n - 1, names);
    case BINARY: case UNARY: case INPLACE: return PyObject_Vectorcall(c->function, args, n, NULL);
    case GETITEM: return PyObject_GetItem(args[0], args[1]);
    case SETITEM:
        if (PyObject_SetItem(args[1], args[2], args[0]) < 0) return NULL;
        Py_RETURN_NONE;
    default: Py_INCREF(args[0]); return args[0];
    }
}

/* How many references there are to what would be written, before ours. */
static Py_ssize_t holders(Check *c, PyObject *const *args) {
    PyObject *target = c->kind == SETITEM ? args[1] : args[0];
    if (c->kind == CALL && PyCFunction_CheckExact(target) && PyCFunction_GET_SELF(target)) target = PyCFunction_GET_SELF(target);
    return Py_REFCNT(target);
}

static int ask(Check *c, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    Py_ssize_t held = holders(c, args), count = n + (names ? PyTuple_GET_SIZE(names) : 0);
    PyObject *all = PyTuple_New(count), *number = PyLong_FromSsize_t(held), *answer = NULL;
    if (all && number) {
        for (Py_ssize_t i = 0; i < count; i++) { Py_INCREF(args[i]); PyTuple_SET_ITEM(all, i, args[i]); }
        answer = PyObject_CallFunctionObjArgs(c->ask, (PyObject *)c, item, all, names ? names : Py_None, number, NULL);
    }
    Py_XDECREF(all); Py_XDECREF(number);
    if (!answer) return -1;
    int code = (int)PyLong_AsLong(answer);
    Py_DECREF(answer);
    return PyErr_Occurred() ? -1 : code;
}

static int is_same_method(PyObject *f, PyObject *g) {
    if (f == g) return 1;
    if (Py_TYPE(f) != Py_TYPE(g)) return 0;
    if (PyMethod_Check(f)) return PyMethod_GET_FUNCTION(f) == PyMethod_GET_FUNCTION(g) && PyMethod_GET_SELF(f) == PyMethod_GET_SELF(g);
    if (!PyCFunction_CheckExact(f)) return 0;
    return ((PyCFunctionObject *)f)->m_ml == ((PyCFunctionObject *)g)->m_ml && PyCFunction_GET_SELF(f) == PyCFunction_GET_SELF(g);
}

/* Whether this is the draw that was let through before, with plain numbers; then only the turn is waited for. */
static int is_again(Check *c, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    if (!c->again || !PyTuple_CheckExact(c->again) || PyTuple_GET_SIZE(c->again) != 3 || names) return 0;
    for (Py_ssize_t i = 1; i < n; i++) if (!PyFloat_CheckExact(args[i]) && !PyLong_CheckExact(args[i])) return 0;
    return is_same_method(args[0], PyTuple_GET_ITEM(c->again, 0));
}

static int draw_again(Check *c) {
    PyObject *done = PyObject_CallMethod(item, "draw", "OOO", PyTuple_GET_ITEM(c->again, 1), PyTuple_GET_ITEM(c->again, 2), (PyObject *)c);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

static PyObject *tell(Check *c, PyObject *result) { /* takes the reference to result, and gives it back */
    PyObject *type = NULL, *value = NULL, *trace = NULL;
    if (!result) PyErr_Fetch(&type, &value, &trace);
    PyObject *done = item ? PyObject_CallMethod(item, "drew", "O", (PyObject *)c) : NULL;
    int stays = done || !PyErr_Occurred() || drop_error();
    Py_XDECREF(done);
    if (stays && !result) PyErr_Restore(type, value, trace);
    if (stays) return result;
    Py_XDECREF(result); Py_XDECREF(type); Py_XDECREF(value); Py_XDECREF(trace);
    return NULL;
}

/* Calls `instead` with this check and the item before the arguments. */
static PyObject *run_instead(Check *c, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    Py_ssize_t count = n + (names ? PyTuple_GET_SIZE(names) : 0);
    PyObject **all = PyMem_New(PyObject *, count + 2);
    if (!all) return PyErr_NoMemory();
    PyObject *mine = item, *runs = c->instead;
    all[0] = (PyObject *)c; all[1] = mine;
    memcpy(all + 2, args, count * sizeof *all);
    Py_INCREF(mine); Py_INCREF(runs);
    PyObject *result = PyObject_Vectorcall(runs, all, n + 2, names);
    Py_DECREF(mine); Py_DECREF(runs);
    PyMem_Free(all);
    return result;
}

static int is_plain_lookup(PyObject *held, PyObject *at) { /* looks at no item, whatever the items are */
    if (PyList_CheckExact(held) || PyTuple_CheckExact(held)) return PyLong_CheckExact(at) || PySlice_Check(at);
    return PyDict_CheckExact(held) && (PyUnicode_CheckExact(at) || PyLong_CheckExact(at));
}

static PyObject *asked_call(Check *c, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    if (!item || (c->kind == GETITEM && is_plain_lookup(args[0], args[1]))) return forward(c, args, n, names);
    PyObject *key = NULL;
    void *method = NULL;
    int call = c->kind == CALL;
    if (call && is_again(c, args, n, names)) return draw_again(c) < 0 ? NULL : tell(c, forward(c, args, n, names));
    if (call) what_is_called(args[0], &key, &method);
    Types types;
    types_of(args + call, n - call + (names ? PyTuple_GET_SIZE(names) : 0), &types);
    for (int i = 0; types.count >= 0 && i < c->used; i++)
        if (is_alike(&c->entries[i], key, method, &types, names) && is_same_code(&c->entries[i], call ? args[0] : NULL))
            return forward(c, args, n, names);
    PyObject *code = call ? code_behind(args[0]) : NULL;
    Py_XINCREF(code);
    int answer = ask(c, args, n, names);
    if (answer == ALWAYS) remember(c, call ? args[0] : NULL, code, key, method, &types, names);
    Py_XDECREF(code);
    if (answer < 0) return NULL;
    if (answer == INSTEAD && c->instead && call) return run_instead(c, args, n, names);
    PyObject *result = forward(c, args, n, names);
    return answer == THEN ? tell(c, result) : result;
}

/* What stands next in the script, if this is its check: a new reference, or NULL without an error. */
static PyObject *from_script(Check *c) {
    if (!script || next_line + 1 >= PyList_GET_SIZE(script) || PyList_GET_ITEM(script, next_line) != (PyObject *)c) return NULL;
    PyObject *result = PyList_GET_ITEM(script, next_line + 1);
    Py_INCREF(result);
    next_line += 2;
    if (next_line >= PyList_GET_SIZE(script)) Py_CLEAR(script);
    return result;
}

static int is_plain_iterator(PyObject *o) { /* one that is made again at no cost, and runs no code */
    PyTypeObject *t = Py_TYPE(o);
    return t == &PyZip_Type || t == &PyEnum_Type || t == &PyReversed_Type || t == &PyListIter_Type ||
           t == &PyTupleIter_Type || t == &PyRangeIter_Type || t == &PyListRevIter_Type;
}

/* An iterator is used up by who walks over it: it is made again, not given again. */
static int note(Check *c, PyObject *result) {
    if (!notes) return 0;
    if (PyIter_Check(result)) {
        if (is_plain_iterator(result) || !item) return 0;
        PyObject *done = PyObject_CallMethod(item, "give_up", "sO", "it makes an iterator of its own", (PyObject *)c);
        Py_XDECREF(done);
        return done ? 0 : -1;
    }
    return PyList_Append(notes, (PyObject *)c) < 0 || PyList_Append(notes, result) < 0 ? -1 : 0;
}

/* Meanwhile nothing is noted or given again: code that is called may come to the same loop. */
static PyObject *listed_call(Check *c, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    PyObject *result = from_script(c);
    if (result) return result;
    PyObject *my_script = script, *my_notes = notes;
    Py_ssize_t my_line = next_line;
    script = notes = NULL;
    result = asked_call(c, args, n, names);
    Py_XSETREF(script, my_script);
    Py_XSETREF(notes, my_notes);
    next_line = my_line;
    if (result && note(c, result) < 0) Py_CLEAR(result);
    return result;
}

static PyObject *check_call(PyObject *self, PyObject *const *args, size_t nf, PyObject *names) {
    Check *c = (Check *)self;
    Py_ssize_t n = PyVectorcall_NARGS(nf);
    return c->listed && (script || notes) ? listed_call(c, args, n, names) : asked_call(c, args, n, names);
}

static PyObject *check_new(PyTypeObject *type, PyObject *args, PyObject *kw) {
    int kind;
    PyObject *site, *function, *inner, *asked;
    static char *known[] = {"kind", "site", "function", "inner", "ask", NULL};
    if (!PyArg_ParseTupleAndKeywords(args, kw, "iOOOO", known, &kind, &site, &function, &inner, &asked)) return NULL;
    if (kind < CALL || kind > ITERATE) { PyErr_SetString(PyExc_ValueError, "unknown kind of site"); return NULL; }
    Check *c = (Check *)type->tp_alloc(type, 0);
    if (!c) return NULL;
    c->vectorcall = check_call;
    c->kind = kind;
    Py_INCREF(site); c->site = site;
    Py_INCREF(function); c->function = function;
    Py_INCREF(inner); c->inner = inner;
    Py_INCREF(asked); c->ask = asked;
    return (PyObject *)c;
}

static int check_traverse(Check *c, visitproc visit, void *arg) {
    Py_VISIT(c->site); Py_VISIT(c->function); Py_VISIT(c->inner); Py_VISIT(c->ask); Py_VISIT(c->again); Py_VISIT(c->instead);
    return 0;
}

static int check_clear(Check *c) {
    for (int i = 0; i < ENTRIES; i++) drop(&c->entries[i]);
    Py_CLEAR(c->site); Py_CLEAR(c->function); Py_CLEAR(c->inner); Py_CLEAR(c->ask); Py_CLEAR(c->again); Py_CLEAR(c->instead);
    return 0;
}

static void check_dealloc(Check *c) {
    PyObject_GC_UnTrack(c);
    check_clear(c);
    Py_TYPE(c)->tp_free((PyObject *)c);
}

static PyObject *forget(Check *c, PyObject *unused) {
    (void)unused;
    for (int i = 0; i < ENTRIES; i++) drop(&c->entries[i]);
    c->used = c->next = 0;
    Py_CLEAR(c->again);
    Py_RETURN_NONE;
}

static PyMemberDef check_members[] = {
    {"kind", T_INT, offsetof(Check, kind), READONLY, "the kind of the site"},
    {"listed", T_INT, offsetof(Check, listed), 0, "whether it stands in a loop whose turns run ahead"},
    {"site", T_OBJECT, offsetof(Check, site), READONLY, "the site it stands at"},
    {"again", T_OBJECT, offsetof(Check, again), 0, "a draw that may be let through once it is its turn: method, generator, name"},
    {"instead", T_OBJECT, offsetof(Check, instead), 0, "what an item runs if the answer is INSTEAD: called with check, item and arguments"},
    {"inner", T_OBJECT, offsetof(Check, inner), 0, "the variant that runs once the check is passed"},
    {NULL, 0, 0, 0, NULL}};
static PyMethodDef check_methods[] = {
    {"forget", (PyCFunction)forget, METH_NOARGS, "Asks again about everything."}, {NULL, NULL, 0, NULL}};

static PyTypeObject CheckType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "codedag.migrate._order.Check", .tp_basicsize = sizeof(Check),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_doc = "Check(kind, site, function, inner, ask): the variant of a site in code that may run ahead of its turn.",
    .tp_new = check_new, .tp_dealloc = (destructor)check_dealloc, .tp_traverse = (traverseproc)check_traverse,
    .tp_clear = (inquiry)check_clear, .tp_call = PyVectorcall_Call, .tp_vectorcall_offset = offsetof(Check, vectorcall),
    .tp_members = check_members, .tp_methods = check_methods};

/* ---- what a loop runs over, with a look ahead now and then ----------------------------------------------------------- */

typedef struct {
    PyObject_HEAD
    PyObject *inner, *tell, *value; /* value: what the turn is about that begins now, while that is told */
    Py_ssize_t count, due;   /* turns begun, and the one before which it is told */
    int ended, replays;      /* whether the loop is through, and whether the script of this thread is that of the loop */
} Steps;

static int steps_tell(Steps *s) {
    if (!s->tell) return 0;
    PyObject *done = PyObject_CallOneArg(s->tell, (PyObject *)s);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

static PyObject *steps_next(Steps *s) {
    if (s->replays) Py_CLEAR(script);
    PyObject *value = Py_TYPE(s->inner)->tp_iternext(s->inner);
    if (!value) {
        PyObject *type, *error, *trace;
        PyErr_Fetch(&type, &error, &trace);
        s->ended = 1;
        if (steps_tell(s) == 0 || drop_error()) PyErr_Restore(type, error, trace);
        else { Py_XDECREF(type); Py_XDECREF(error); Py_XDECREF(trace); }
        return NULL;
    }
    if (s->count >= s->due) {
        Py_INCREF(value);
        Py_XSETREF(s->value, value);
        int failed = steps_tell(s) < 0;
        Py_CLEAR(s->value);
        if (failed) { Py_DECREF(value); return NULL; }
    }
    s->count++;
    return value;
}

static PyObject *steps_new(PyTypeObject *type, PyObject *args, PyObject *kw) {
    PyObject *over, *tell;
    static char *known[] = {"over", "tell", NULL};
    if (!PyArg_ParseTupleAndKeywords(args, kw, "OO", known, &over, &tell)) return NULL;
    PyObject *inner = PyObject_GetIter(over);
    if (!inner) return NULL;
    Steps *s = (Steps *)type->tp_alloc(type, 0);
    if (!s) { Py_DECREF(inner); return NULL; }
    s->inner = inner;
    Py_INCREF(tell); s->tell = tell;
    return (PyObject *)s;
}

static int steps_traverse(Steps *s, visitproc visit, void *arg) {
    Py_VISIT(s->inner); Py_VISIT(s->tell); Py_VISIT(s->value);
    return 0;
}

static int steps_clear(Steps *s) {
    Py_CLEAR(s->inner); Py_CLEAR(s->tell); Py_CLEAR(s->value);
    return 0;
}

static void steps_dealloc(Steps *s) {
    PyObject_GC_UnTrack(s);
    if (s->replays) Py_CLEAR(script); /* the loop was left */
    steps_clear(s);
    Py_TYPE(s)->tp_free((PyObject *)s);
}

static PyMemberDef steps_members[] = {
    {"inner", T_OBJECT, offsetof(Steps, inner), READONLY, "the iterator that the program would have had"},
    {"value", T_OBJECT, offsetof(Steps, value), READONLY, "while it is told of a turn: what the loop is at"},
    {"count", T_PYSSIZET, offsetof(Steps, count), READONLY, "turns begun"},
    {"due", T_PYSSIZET, offsetof(Steps, due), 0, "before which turn it is told next"},
    {"ended", T_INT, offsetof(Steps, ended), READONLY, "whether the loop is through"},
    {"replays", T_INT, offsetof(Steps, replays), 0, "whether results of turns that ran ahead are given again"},
    {NULL, 0, 0, 0, NULL}};

static PyTypeObject StepsType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "codedag.migrate._order.Steps", .tp_basicsize = sizeof(Steps),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "Steps(over, tell): an iterator that calls tell(self) before turn `due`, and at the end.",
    .tp_new = steps_new, .tp_dealloc = (destructor)steps_dealloc, .tp_traverse = (traverseproc)steps_traverse,
    .tp_clear = (inquiry)steps_clear, .tp_iter = PyObject_SelfIter, .tp_iternext = (iternextfunc)steps_next,
    .tp_members = steps_members};

static PyObject *keep_notes(PyObject *m, PyObject *list) {
    (void)m;
    if (list != Py_None && !PyList_CheckExact(list)) { PyErr_SetString(PyExc_TypeError, "a list or None"); return NULL; }
    PyObject *now = list == Py_None ? NULL : list;
    Py_XINCREF(now);
    Py_XSETREF(notes, now);
    Py_RETURN_NONE;
}

static PyObject *follow(PyObject *m, PyObject *list) {
    (void)m;
    if (list != Py_None && !PyList_CheckExact(list)) { PyErr_SetString(PyExc_TypeError, "a list or None"); return NULL; }
    PyObject *now = list == Py_None ? NULL : list;
    Py_XINCREF(now);
    Py_XSETREF(script, now);
    next_line = 0;
    Py_RETURN_NONE;
}

static PyObject *enter(PyObject *m, PyObject *what) {
    (void)m;
    PyObject *before = item;
    item = NULL;
    if (what != Py_None) { Py_INCREF(what); item = what; }
    Py_XDECREF(before);
    Py_RETURN_NONE;
}

static PyObject *current(PyObject *m, PyObject *unused) {
    (void)m; (void)unused;
    PyObject *now = item ? item : Py_None;
    Py_INCREF(now);
    return now;
}

static PyObject *methods_of(PyObject *m, PyObject *type) {
    (void)m;
    Py_INCREF(type);
    Py_XSETREF(stand_for_method, type);
    Py_RETURN_NONE;
}

static PyObject *references(PyObject *m, PyObject *thing) {
    (void)m;
    return PyLong_FromSsize_t(Py_REFCNT(thing));
}

/* What changes whenever a dict is changed, also if it is changed back; 0 for anything else and where there is none. */
static PyObject *version(PyObject *m, PyObject *thing) {
    (void)m;
#if PY_VERSION_HEX < 0x030E0000
#ifdef __GNUC__
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#endif
    if (PyDict_CheckExact(thing)) return PyLong_FromUnsignedLongLong(((PyDictObject *)thing)->ma_version_tag);
#ifdef __GNUC__
#pragma GCC diagnostic pop
#endif
#endif
    return PyLong_FromLong(0);
}

static PyMethodDef functions[] = {
    {"enter", enter, METH_O, "enter(item or None): what this thread works on from now."},
    {"current", current, METH_NOARGS, "current() -> what this thread works on, or None."},
    {"keep_notes", keep_notes, METH_O, "keep_notes(list or None): where listed checks of this thread write what they gave."},
    {"follow", follow, METH_O, "follow(list or None): what listed checks of this thread give again."},
    {"methods_of", methods_of, METH_O, "methods_of(type): the type of methods of values that are not computed yet."},
    {"version", version, METH_O, "version(dict) -> what changes whenever it is changed; 0 if there is no such thing."},
    {"references", references, METH_O, "references(thing) -> how many references there are to it, that of the call included."},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "codedag.migrate._order", "Checks at the sites of code that may run ahead of its turn.", -1,
    functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__order(void) {
    if (PyType_Ready(&CheckType) < 0 || PyType_Ready(&StepsType) < 0) return NULL;
    PyObject *m = PyModule_Create(&module);
    if (!m) return NULL;
    Py_INCREF(&CheckType);
    if (PyModule_AddObject(m, "Check", (PyObject *)&CheckType) < 0) { Py_DECREF(m); return NULL; }
    Py_INCREF(&StepsType);
    if (PyModule_AddObject(m, "Steps", (PyObject *)&StepsType) < 0) { Py_DECREF(m); return NULL; }
    PyModule_AddIntConstant(m, "ONCE", ONCE);
    PyModule_AddIntConstant(m, "ALWAYS", ALWAYS);
    PyModule_AddIntConstant(m, "THEN", THEN);
    PyModule_AddIntConstant(m, "INSTEAD", INSTEAD);
    return m;
}
