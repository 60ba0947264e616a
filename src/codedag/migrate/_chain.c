/* The native form of a chain: calls that are as the last ones were, but for the numbers in them, without a line of Python.
 *
 * `Site` is the variant of a site of the chain.  Each compares its call with what the chain was opened for, notes the
 * parameters in a `Run` and hands the placeholder on; the last one computes the table and applies the kernel in one go,
 * without the interpreter's lock.  Whatever is not as it must be goes to the variant in Python, which takes the run
 * over with the steps so far.  It also stands at the sites between them.  No frame of ours is left in the stack.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <float.h>
#include <structmember.h>
#include <time.h>
#include "chain_table.h"
#include "own_error.h"

enum { CALL, BINARY, UNARY, INPLACE, GETITEM, SETITEM, RETURN, ITERATE };
enum { NUMBER, ARRAY, FIXED }; /* what a parameter must be: any float, such an array, this very value */
enum { MOST_STEPS = 24, MOST_PARAMETERS = 48, LAYOUTS = 64, AXES = 5, MOST_NAMES = 3 };

typedef void (*Kernel)(const uint8_t *, const void *, void *, const void *);

typedef struct { int kind, count; char format; PyObject *value, *shape; } Need;

typedef struct {
    int at, first, needs;         /* where the value stands (-1: a method of it), its first parameter, and how many */
    PyObject *function, *name;    /* what is called, or the name of the method */
    PyObject *names, *values;     /* keywords, as they must be */
    PyObject *sample;
} Spec;

typedef struct { int ndim; Py_ssize_t shape[AXES], strides[AXES]; PyObject *make, *held; Kernel kernel; const void *axes; } Layout;

typedef struct Run Run;
typedef struct {
    PyObject_HEAD
    char open, has_own_time;      /* whether a thread's own time is fine enough here */
    int steps, parameters, ops, rows, layouts;
    Spec spec[MOST_STEPS];
    Need need[MOST_PARAMETERS];
    Op op[MOST_OPS];
    Layout layout[LAYOUTS];
    Run *runs;                    /* that are under way, in any thread */
    PyObject *trial, *array, *dtype, *placeholder, *method, *calm, *checked, *settled, *steps_of, *harmless;
    PyObject *errors, *errors_seen, *warnings, *filters_seen; /* whether a warning may raise was asked in this state */
    PyObject *modes, *default_dtype, *entry_dtype, *specs;
} Chain;

struct Run {
    PyObject_HEAD
    Chain *chain;
    PyObject *source, *value, *weak;
    PyObject *parameter[MOST_PARAMETERS];
    int count, layout;
    char done, own_time;          /* whether the end of it was timed by the clock of its thread */
    unsigned long thread;
    double spent;
    Run *before, *after;
};

/* The variant of a site: of a step of the chain, or (index -1) of what runs between steps. */
typedef struct {
    PyObject_HEAD vectorcallfunc vectorcall; Chain *chain; int index, kind; PyObject *function, *slow, *known, *kind_of; void *method;
} Site;

static PyTypeObject ChainType, RunType, SiteType;
static PyObject *s_active, *s_deferred, *s_placeholder, *s_name, *s_due, *s_dtype, *s_data_ptr, *s_filters, *s_is_next;

static double now(void) {
    struct timespec t;
#ifdef CLOCK_MONOTONIC
    clock_gettime(CLOCK_MONOTONIC, &t);
#else
    timespec_get(&t, TIME_UTC);
#endif
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- runs */

static void end_run(Run *r) { /* takes a run out of those under way, and lets go of what it held */
    if (r->chain) {
        if (r->before) r->before->after = r->after;
        else if (r->chain->runs == r) r->chain->runs = r->after;
        if (r->after) r->after->before = r->before;
    }
    r->before = r->after = NULL;
    Py_CLEAR(r->source);
    for (int i = 0; i < MOST_PARAMETERS; i++) Py_CLEAR(r->parameter[i]);
}

static void run_dealloc(Run *r) {
    if (r->weak) PyObject_ClearWeakRefs((PyObject *)r);
    end_run(r);
    Py_CLEAR(r->value);
    Py_CLEAR(r->chain);
    Py_TYPE(r)->tp_free((PyObject *)r);
}

static PyObject *run_steps(Run *r, void *unused) { /* [(number, its parameters), ...] made into steps by the chain */
    (void)unused;
    PyObject *all = PyTuple_New(r->count);
    for (int k = 0; all && k < r->count; k++) {
        Spec *s = &r->chain->spec[k];
        PyObject *own = PyTuple_New(s->needs);
        if (!own) { Py_CLEAR(all); break; }
        for (int i = 0; i < s->needs; i++) {
            PyObject *value = r->parameter[s->first + i] ? r->parameter[s->first + i] : Py_None;
            Py_INCREF(value);
            PyTuple_SET_ITEM(own, i, value);
        }
        PyTuple_SET_ITEM(all, k, own);
    }
    if (!all) return NULL;
    PyObject *steps = PyObject_CallFunctionObjArgs(r->chain->steps_of, r->chain->specs, all, NULL);
    Py_DECREF(all);
    return steps;
}

static PyObject *run_sample(Run *r, void *unused) {
    (void)unused;
    PyObject *sample = r->count ? r->chain->spec[r->count - 1].sample : Py_None;
    Py_INCREF(sample);
    return sample;
}

static PyObject *run_settle(Run *r, PyObject *args) {
    PyObject *space = Py_None;
    if (!PyArg_ParseTuple(args, "|O", &space)) return NULL;
    if (!r->done) {
        PyObject *value = PyObject_CallFunctionObjArgs(r->chain->settled, (PyObject *)r, space, NULL);
        if (!value) return NULL;
        r->done = 1;
        Py_XSETREF(r->value, value);
        end_run(r);
    }
    PyObject *value = r->value ? r->value : Py_None;
    Py_INCREF(value);
    return value;
}

static PyObject *run_end(Run *r, PyObject *unused) {
    (void)unused;
    end_run(r);
    Py_RETURN_NONE;
}

static PyMemberDef run_members[] = {
    {"source", T_OBJECT, offsetof(Run, source), READONLY, "the value that entered the chain"},
    {"done", T_BOOL, offsetof(Run, done), READONLY, "whether its steps have been run as written"},
    {"spent", T_DOUBLE, offsetof(Run, spent), 0, "seconds"},
    {"own_time", T_BOOL, offsetof(Run, own_time), READONLY, "whether they are of its thread alone, but for the steps"},
    {NULL, 0, 0, 0, NULL}};
static PyGetSetDef run_getset[] = {
    {"steps", (getter)run_steps, NULL, "the steps so far", NULL},
    {"sample", (getter)run_sample, NULL, "a value of the type that this one has", NULL}, {NULL, NULL, NULL, NULL, NULL}};
static PyMethodDef run_methods[] = {
    {"settle", (PyCFunction)run_settle, METH_VARARGS, "settle(globals=None) -> the value when each step runs as written"},
    {"end", (PyCFunction)run_end, METH_NOARGS, "Lets go: somebody else goes on with the steps."}, {NULL, NULL, 0, NULL}};
static PyTypeObject RunType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "codedag.migrate._chain.Run", .tp_basicsize = sizeof(Run),
    .tp_flags = Py_TPFLAGS_DEFAULT, .tp_doc = "One call on the native chain.", .tp_dealloc = (destructor)run_dealloc,
    .tp_members = run_members, .tp_getset = run_getset, .tp_methods = run_methods,
    .tp_weaklistoffset = offsetof(Run, weak)};

/* ---- whether a call is as it must be */

static int is_true(PyObject *of, PyObject *name) {
    PyObject *value = PyObject_GetAttr(of, name);
    if (!value) { PyErr_Clear(); return 0; }
    Py_DECREF(value);
    return value == Py_True;
}

static int same_filters(PyObject *seen, PyObject *filters) {
    if (!seen || !PyList_CheckExact(filters) || PyList_GET_SIZE(filters) != PyTuple_GET_SIZE(seen)) return 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(seen); i++)
        if (PyList_GET_ITEM(filters, i) != PyTuple_GET_ITEM(seen, i)) return 0;
    return 1;
}

/* Whether this thread rounds to nearest and keeps subnormal numbers, as when its tables were made. */
static int is_usual_mode(void) {
    volatile double smallest = DBL_MIN, subnormal = 0x1p-1074, one = 1.0, little = 0x1p-60;
    return smallest * 0.5 != 0.0 && subnormal * 0x1p1000 != 0.0 && one + little == 1.0 && one - little == 1.0 && -one - little == -1.0;
}

/* Whether a floating-point warning stays a warning; asked again only when numpy's state or the filters are others. */
static int is_calm(Chain *l) {
    PyObject *errors = NULL, *filters = PyObject_GetAttr(l->warnings, s_filters);
    int calm = 0;
    if (!filters || PyContextVar_Get(l->errors, NULL, &errors) < 0 || !errors) goto out;
    if (errors == l->errors_seen && same_filters(l->filters_seen, filters)) { calm = 1; goto out; }
    PyObject *answer = PyObject_CallNoArgs(l->calm);
    calm = answer == Py_True;
    Py_XDECREF(answer);
    if (calm && PyList_CheckExact(filters)) {
        Py_INCREF(errors);
        Py_XSETREF(l->errors_seen, errors);
        Py_XSETREF(l->filters_seen, PyList_AsTuple(filters));
    }
out:
    Py_XDECREF(errors); Py_XDECREF(filters);
    if (PyErr_Occurred()) { PyErr_Clear(); return 0; }
    return calm;
}

/* Whether torch would see other operations than written: a mode, or another default dtype than when it was learned. */
static int is_unwatched(Chain *l) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(l->modes); i++) {
        PyObject *depth = PyObject_CallNoArgs(PyTuple_GET_ITEM(l->modes, i));
        long number = depth ? PyLong_AsLong(depth) : -1;
        Py_XDECREF(depth);
        if (number != 0) { PyErr_Clear(); return 0; }
    }
    if (l->default_dtype == Py_None) return 1;
    PyObject *dtype = PyObject_CallNoArgs(l->default_dtype);
    Py_XDECREF(dtype);
    if (!dtype) PyErr_Clear();
    return dtype == l->entry_dtype;
}

static int has_shape(const Layout *f, const Py_buffer *b) {
    if (f->ndim != b->ndim) return 0;
    for (int i = 0; i < b->ndim; i++)
        if (f->shape[i] != b->shape[i] || f->strides[i] != b->strides[i]) return 0;
    return 1;
}

static int layout_of(Chain *l, PyObject *source) { /* the number of the layout of such a source, or -1 */
    Py_buffer b;
    PyObject *dtype;
    int found = -1;
    if ((PyObject *)Py_TYPE(source) != l->array || !(dtype = PyObject_GetAttr(source, s_dtype))) { PyErr_Clear(); return -1; }
    Py_DECREF(dtype);
    if (dtype != l->dtype) return -1;
    if (PyObject_GetBuffer(source, &b, PyBUF_STRIDES) < 0) { PyErr_Clear(); return -1; }
    for (int i = 0; i < l->layouts && found < 0; i++) if (has_shape(&l->layout[i], &b)) found = i;
    PyBuffer_Release(&b);
    return found;
}

static int is_fixed(PyObject *value, PyObject *must) {
    if (value == must) return 1;
    if (!PyLong_CheckExact(value) || !PyLong_CheckExact(must)) return 0;
    return PyObject_RichCompareBool(value, must, Py_EQ) == 1;
}

static int is_such_array(Chain *l, PyObject *value, const Need *n) {
    PyObject *dtype = NULL;
    Py_buffer b;
    if ((PyObject *)Py_TYPE(value) != l->array || !(dtype = PyObject_GetAttr(value, s_dtype))) { PyErr_Clear(); return 0; }
    Py_DECREF(dtype);
    if (dtype != n->value || PyObject_GetBuffer(value, &b, PyBUF_STRIDES) < 0) { PyErr_Clear(); return 0; }
    int fits = b.ndim == PyTuple_GET_SIZE(n->shape);
    for (int i = 0; fits && i < b.ndim; i++) fits = b.shape[i] == PyLong_AsSsize_t(PyTuple_GET_ITEM(n->shape, i));
    PyBuffer_Release(&b);
    return fits;
}

static int fits(Chain *l, PyObject *value, const Need *n) {
    if (n->kind == NUMBER) return PyFloat_CheckExact(value);
    return n->kind == ARRAY ? is_such_array(l, value, n) : is_fixed(value, n->value);
}

static int same_names(PyObject *names, PyObject *must) {
    if (names == must) return 1;
    Py_ssize_t count = names ? PyTuple_GET_SIZE(names) : 0;
    if (count != (must ? PyTuple_GET_SIZE(must) : 0)) return 0;
    for (Py_ssize_t i = 0; i < count; i++)
        if (PyUnicode_Compare(PyTuple_GET_ITEM(names, i), PyTuple_GET_ITEM(must, i))) return 0;
    return 1;
}

static int is_method(PyObject *called, const Spec *s, Chain *l) { /* of the value itself, or of its placeholder */
    if (PyCFunction_CheckExact(called)) return !PyUnicode_CompareWithASCIIString(s->name, ((PyCFunctionObject *)called)->m_ml->ml_name);
    if ((PyObject *)Py_TYPE(called) != l->method) return 0;
    PyObject *name = PyObject_GetAttr(called, s_name);
    int same = name && PyUnicode_Check(name) && !PyUnicode_Compare(name, s->name);
    Py_XDECREF(name);
    return same;
}

/* The value that a site takes, borrowed: an argument, or what the called method is of. */
static PyObject *taken(Site *site, const Spec *s, PyObject *const *args, Py_ssize_t n) {
    int call = site->kind == CALL;
    if (s->at >= 0) return s->at + call < n ? args[s->at + call] : NULL;
    if (PyCFunction_CheckExact(args[0])) return PyCFunction_GET_SELF(args[0]);
    if ((PyObject *)Py_TYPE(args[0]) != site->chain->method) return NULL;
    PyObject *placeholder = PyObject_GetAttr(args[0], s_placeholder);
    Py_XDECREF(placeholder); /* the method holds it */
    return placeholder;
}

/* Notes the parameters of a call that is as it must be; 0 if it is not, and then nothing is noted. */
static int take(Site *site, Run *r, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    Chain *l = site->chain;
    const Spec *s = &l->spec[site->index];
    int call = site->kind == CALL, given = 0;
    if (n - call - (s->at >= 0) != s->needs || !same_names(names, s->names)) return 0;
    if (call && (s->at < 0 ? !is_method(args[0], s, l) : args[0] != s->function)) return 0;
    for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); i++)
        if (args[n + i] != PyTuple_GET_ITEM(s->values, i)) return 0;
    for (Py_ssize_t i = call; i < n; i++)
        if (i - call != s->at && !fits(l, args[i], &l->need[s->first + given++])) return 0;
    given = 0;
    for (Py_ssize_t i = call; i < n; i++)
        if (i - call != s->at) {
            PyObject **place = &r->parameter[s->first + given++];
            Py_INCREF(args[i]);
            Py_XSETREF(*place, args[i]);
        }
    r->count = site->index + 1;
    return 1;
}

/* ---- the end of a run */

static int numbers(Chain *l, Run *r, Slot *slots, double *values) { /* what the parameters are; they may change later */
    int used = 0;
    for (int i = 0; i < l->parameters; i++) {
        const Need *n = &l->need[i];
        slots[i].start = used;
        slots[i].count = n->kind == FIXED ? 0 : n->count;
        if (used + slots[i].count > MOST_VALUES || (slots[i].count > 1 && slots[i].count != l->rows)) return 0;
        if (n->kind == NUMBER) values[used] = PyFloat_AS_DOUBLE(r->parameter[i]);
        if (n->kind == ARRAY) {
            Py_buffer b;
            if (PyObject_GetBuffer(r->parameter[i], &b, PyBUF_C_CONTIGUOUS) < 0) { PyErr_Clear(); return 0; }
            for (int k = 0; k < n->count; k++)
                values[used + k] = n->format == 'f' ? ((float *)b.buf)[k] : ((double *)b.buf)[k];
            PyBuffer_Release(&b);
        }
        used += slots[i].count;
    }
    return 1;
}

static void *address(PyObject *result, Py_buffer *b) { /* where its elements are; the buffer is released by the caller */
    b->obj = NULL;
    if (PyObject_CheckBuffer(result)) return PyObject_GetBuffer(result, b, PyBUF_STRIDES | PyBUF_WRITABLE) < 0 ? NULL : b->buf;
    PyObject *number = PyObject_CallMethodNoArgs(result, s_data_ptr);
    void *found = number ? PyLong_AsVoidPtr(number) : NULL;
    Py_XDECREF(number);
    return found;
}

static int apply(Chain *l, Run *r, void *out) {
    Slot slots[MOST_PARAMETERS];
    double values[MOST_VALUES];
    char table[MOST_ROWS * 256 * 8];
    Py_buffer b;
    if (!numbers(l, r, slots, values) || PyObject_GetBuffer(r->source, &b, PyBUF_STRIDES) < 0) { PyErr_Clear(); return 0; }
    const Layout *f = &l->layout[r->layout];
    Kernel kernel = f->kernel;
    const void *axes = f->axes, *from = b.buf;
    int count = l->ops, rows = l->rows, fine, same = has_shape(f, &b);
    Py_BEGIN_ALLOW_THREADS /* nothing of the chain changes while runs are under way */
    fine = same && fill_table(l->op, count, slots, values, rows, table);
    if (fine) kernel(from, table, out, axes);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&b);
    return fine;
}

/* The result of the whole chain, NULL without an exception if it must be computed in another way. */
static PyObject *result_of(Chain *l, Run *r) {
    Py_buffer b;
    PyObject *result = PyObject_CallNoArgs(l->layout[r->layout].make);
    void *out = result && result != Py_None ? address(result, &b) : NULL;
    int fine = out && apply(l, r, out);
    if (out && b.obj) PyBuffer_Release(&b);
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_Exception)) drop_error(); /* no memory: as written, then */
    if (!fine || PyErr_Occurred()) Py_CLEAR(result);
    return result;
}

/* The clock of this thread alone: what else the machine does is no part of it.  0 if there is none. */
static double own_time(void) {
#ifdef CLOCK_THREAD_CPUTIME_ID
    struct timespec t;
    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) == 0) return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
#endif
    return 0.0;
}

/* Whether the next result is compared: only then is its time of interest, and a thread's own takes long to read. */
static int is_compared(Chain *l) {
    PyObject *next = PyObject_CallMethodNoArgs(l->trial, s_is_next);
    if (!next) drop_error(); /* what a signal raised here stays */
    Py_XDECREF(next);
    return next == Py_True;
}

static PyObject *finish(Chain *l, Run *r, double started) {
    r->spent += now() - started; /* up to here by the wall, as the steps before: reading the other clock may take a turn */
    double own = l->has_own_time && is_compared(l) ? own_time() : 0.0;
    if (PyErr_Occurred()) return NULL;
    r->own_time = own > 0.0;
    started = now();
    PyObject *result = result_of(l, r);
    if (!result) return NULL;
    r->spent += r->own_time ? own_time() - own : now() - started;
    PyObject *due = PyObject_CallMethodNoArgs(l->trial, s_due), *given = NULL;
    if (due == Py_False) { given = result; Py_INCREF(given); }
    else if (due) given = PyObject_CallFunctionObjArgs(l->checked, (PyObject *)r, result, NULL);
    Py_XDECREF(due);
    Py_DECREF(result);
    end_run(r);
    return given;
}

/* ---- sites */

static Run *begin(Site *site, PyObject *source) {
    Chain *l = site->chain;
    int layout = layout_of(l, source);
    if (layout < 0 || !is_usual_mode() || !is_calm(l) || !is_unwatched(l)) return NULL;
    Run *r = (Run *)RunType.tp_alloc(&RunType, 0);
    if (!r) { PyErr_Clear(); return NULL; }
    Py_INCREF(l); r->chain = l;
    Py_INCREF(source); r->source = source;
    r->layout = layout; r->thread = PyThread_get_thread_ident();
    r->after = l->runs;
    if (l->runs) l->runs->before = r;
    l->runs = r;
    return r;
}

static PyObject *step_site_call(PyObject *self, PyObject *const *args, size_t nf, PyObject *names) {
    Site *site = (Site *)self;
    Chain *l = site->chain;
    Py_ssize_t n = PyVectorcall_NARGS(nf);
    PyObject *value, *placeholder = NULL, *given = NULL;
    Run *r = NULL;
    if (!l->open || site->index >= l->steps || n < 1 || !is_true(l->trial, s_active)) goto slow;
    double started = now();
    if (!(value = taken(site, &l->spec[site->index], args, n))) goto slow;
    if (site->index == 0) {
        if (!(r = begin(site, value)) || !take(site, r, args, n, names)) goto slow;
        placeholder = PyObject_CallOneArg(l->placeholder, (PyObject *)r);
    } else {
        if ((PyObject *)Py_TYPE(value) != l->placeholder) goto slow;
        r = (Run *)PyObject_GetAttr(value, s_deferred);
        if (!r || Py_TYPE(r) != &RunType || r->chain != l || r->done || r->count != site->index || !r->source) goto slow;
        if (!take(site, r, args, n, names)) goto slow;
        placeholder = value;
        Py_INCREF(placeholder);
    }
    if (site->index < l->steps - 1) {
        r->spent += now() - started;
        Py_DECREF(r);
        return placeholder;
    }
    given = finish(l, r, started);
    Py_XDECREF(placeholder);
    if (given || PyErr_Occurred()) { Py_DECREF(r); return given; }
    r->count = site->index; /* the last step is the other variant's */
slow:
    if (r && site->index == 0 && Py_TYPE(r) == &RunType) end_run(r);
    Py_XDECREF(r);
    if (PyErr_Occurred() && !drop_error()) return NULL;
    return PyObject_Vectorcall(site->slow, args, nf, names);
}

static PyObject *forward(Site *p, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    switch (p->kind) {
    case CALL: return PyObject_Vectorcall(args[0], args + 1, n - 1, names);
    case GETITEM: return PyObject_GetItem(args[0], args[1]);
    default: return PyObject_Vectorcall(p->function, args, n, NULL);
    }
}

static int is_waiting(Chain *l) {
    unsigned long here = l->runs ? PyThread_get_thread_ident() : 0;
    for (Run *r = l->runs; r; r = r->after) if (r->thread == here && r->count) return 1;
    return 0;
}

static int are_numbers(PyObject *const *args, Py_ssize_t count) {
    for (Py_ssize_t i = 0; i < count; i++)
        if (!PyFloat_CheckExact(args[i]) && !PyLong_CheckExact(args[i])) return 0;
    return 1;
}

/* What decides, beside plain numbers, whether a call is harmless: the function, or the type that it is a method of. */
static void key_of(PyObject *f, PyObject **known, PyObject **kind_of, void **method) {
    *known = f; *kind_of = NULL; *method = NULL;
    if (PyMethod_Check(f)) { *known = PyMethod_GET_FUNCTION(f); *kind_of = (PyObject *)Py_TYPE(PyMethod_GET_SELF(f)); }
    else if (PyCFunction_CheckExact(f) && PyCFunction_GET_SELF(f) && !PyModule_Check(PyCFunction_GET_SELF(f))) {
        *known = NULL; *kind_of = (PyObject *)Py_TYPE(PyCFunction_GET_SELF(f)); *method = ((PyCFunctionObject *)f)->m_ml;
    }
}

static PyObject *bystander_call(PyObject *self, PyObject *const *args, size_t nf, PyObject *names) {
    Site *p = (Site *)self;
    Py_ssize_t n = PyVectorcall_NARGS(nf), count = n + (names ? PyTuple_GET_SIZE(names) : 0);
    PyObject *known = NULL, *kind_of = NULL;
    void *method = NULL;
    int call = p->kind == CALL, plain = !names && are_numbers(args + call, n - call);
    if (p->kind >= INPLACE && p->kind != GETITEM) return PyObject_Vectorcall(p->slow, args, nf, names);
    if (!is_waiting(p->chain)) return PyObject_Vectorcall(p->slow, args, nf, names); /* others may be: it looks */
    if (call) key_of(args[0], &known, &kind_of, &method);
    if (plain && (p->kind == BINARY || p->kind == UNARY)) return forward(p, args, n, names);
    if (plain && call && (p->known || p->kind_of) && known == p->known && kind_of == p->kind_of && method == p->method) return forward(p, args, n, names);
    PyObject *all = PyTuple_New(n), *keywords = PyDict_New(), *answer = NULL;
    if (all && keywords) {
        for (Py_ssize_t i = 0; i < n; i++) { Py_INCREF(args[i]); PyTuple_SET_ITEM(all, i, args[i]); }
        for (Py_ssize_t i = n; i < count; i++) PyDict_SetItem(keywords, PyTuple_GET_ITEM(names, i - n), args[i]);
        answer = PyObject_CallFunction(p->chain->harmless, "iOO", p->kind, all, keywords);
    }
    Py_XDECREF(all); Py_XDECREF(keywords); Py_XDECREF(answer);
    if (PyErr_Occurred() && !drop_error()) return NULL;
    if (answer != Py_True) return PyObject_Vectorcall(p->slow, args, nf, names);
    if (plain && call) {
        Py_XINCREF(known); Py_XSETREF(p->known, known);
        Py_XINCREF(kind_of); Py_XSETREF(p->kind_of, kind_of);
        p->method = method;
    }
    return forward(p, args, n, names);
}

/* ---- the chain */

static int read_spec(Chain *l, PyObject *given, int k) {
    Spec *s = &l->spec[k];
    PyObject *needs;
    s->first = l->parameters;
    if (!PyArg_ParseTuple(given, "iOOOOOO!", &s->at, &s->function, &s->name, &s->names, &s->values, &s->sample, &PyTuple_Type, &needs)) return 0;
    s->needs = (int)PyTuple_GET_SIZE(needs);
    if (s->names == Py_None) s->names = NULL;
    if (s->at < 0 && !PyUnicode_Check(s->name)) { PyErr_SetString(PyExc_TypeError, "a method needs a name"); return 0; }
    if (l->parameters + s->needs > MOST_PARAMETERS) { PyErr_SetString(PyExc_ValueError, "too many parameters"); return 0; }
    for (int i = 0; i < s->needs; i++) {
        Need *n = &l->need[l->parameters];
        const char *format;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(needs, i), "iisOO!", &n->kind, &n->count, &format, &n->value, &PyTuple_Type, &n->shape)) return 0;
        n->format = format[0];
        l->parameters++;
    }
    return 1;
}

static int read_ops(PyObject *ops, Op *op, int *count) {
    *count = (int)PyTuple_GET_SIZE(ops);
    if (*count > MOST_OPS) { PyErr_SetString(PyExc_ValueError, "too many operations"); return 0; }
    for (int i = 0; i < *count; i++)
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(ops, i), "iiid", &op[i].code, &op[i].type, &op[i].source, &op[i].value)) return 0;
    return 1;
}

static void forget_layouts(Chain *l) {
    for (int i = 0; i < l->layouts; i++) { Py_CLEAR(l->layout[i].make); Py_CLEAR(l->layout[i].held); }
    l->layouts = 0;
}

static PyObject **ref(Chain *l, int i) {
    PyObject **all[] = {&l->trial, &l->placeholder, &l->method, &l->calm, &l->checked, &l->settled, &l->steps_of, &l->harmless,
                        &l->array, &l->dtype, &l->errors, &l->warnings, &l->modes, &l->default_dtype, &l->entry_dtype,
                        &l->errors_seen, &l->filters_seen, &l->specs};
    return i < (int)(sizeof all / sizeof all[0]) ? all[i] : NULL;
}
enum { OWN = 8, WORLD = 7 }; /* how many of these are given to the chain, and how many when it is opened */

/* The specs borrow what is in the tuple that was given, which the chain keeps. */
static PyObject *chain_open(Chain *l, PyObject *args) {
    PyObject *specs, *ops, *world;
    int rows;
    if (!PyArg_ParseTuple(args, "O!O!iO!", &PyTuple_Type, &specs, &PyTuple_Type, &ops, &rows, &PyTuple_Type, &world)) return NULL;
    if (l->runs) Py_RETURN_FALSE; /* of calls as they were before */
    l->open = 0;
    if (PyTuple_GET_SIZE(specs) > MOST_STEPS || rows > MOST_ROWS || rows < 1) Py_RETURN_FALSE;
    if (PyTuple_GET_SIZE(world) != WORLD || !PyContextVar_CheckExact(PyTuple_GET_ITEM(world, 2)) || !PyTuple_Check(PyTuple_GET_ITEM(world, 4))) Py_RETURN_FALSE;
    forget_layouts(l);
    Py_INCREF(specs); Py_XSETREF(l->specs, specs);
    for (int i = 0; i < WORLD; i++) { PyObject *one = PyTuple_GET_ITEM(world, i); Py_INCREF(one); Py_XSETREF(*ref(l, OWN + i), one); }
    Py_CLEAR(l->errors_seen); Py_CLEAR(l->filters_seen);
    l->steps = (int)PyTuple_GET_SIZE(specs);
    l->parameters = 0; l->rows = rows;
    for (int k = 0; k < l->steps; k++) if (!read_spec(l, PyTuple_GET_ITEM(specs, k), k)) return NULL;
    if (!read_ops(ops, l->op, &l->ops)) return NULL;
    for (int i = 0; i < l->ops; i++)
        if (l->op[i].source >= l->parameters) { PyErr_SetString(PyExc_ValueError, "no such parameter"); return NULL; }
    l->open = 1;
    Py_RETURN_TRUE;
}

static int read_numbers(PyObject *from, Py_ssize_t *into, int ndim) {
    for (int i = 0; i < ndim; i++) {
        into[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(from, i));
        if (PyErr_Occurred()) return 0;
    }
    return 1;
}

static PyObject *chain_learn(Chain *l, PyObject *args) {
    PyObject *specs, *shape, *strides, *make, *kernel, *axes, *held;
    if (!PyArg_ParseTuple(args, "OO!O!OOOO", &specs, &PyTuple_Type, &shape, &PyTuple_Type, &strides, &make, &kernel, &axes, &held)) return NULL;
    Py_ssize_t ndim = PyTuple_GET_SIZE(shape);
    if (!l->open || l->specs != specs || ndim > AXES || PyTuple_GET_SIZE(strides) != ndim || (l->layouts == LAYOUTS && l->runs)) Py_RETURN_FALSE;
    if (l->layouts == LAYOUTS) forget_layouts(l);
    Layout *f = &l->layout[l->layouts];
    f->ndim = (int)ndim;
    f->kernel = (Kernel)PyLong_AsVoidPtr(kernel);
    f->axes = PyLong_AsVoidPtr(axes);
    if (!read_numbers(shape, f->shape, f->ndim) || !read_numbers(strides, f->strides, f->ndim) || PyErr_Occurred()) return NULL;
    Py_INCREF(make); f->make = make;
    Py_INCREF(held); f->held = held;
    l->layouts++;
    Py_RETURN_TRUE;
}

static PyObject *chain_waiting(Chain *l, PyObject *unused) {
    (void)unused;
    unsigned long here = PyThread_get_thread_ident();
    PyObject *found = PyList_New(0);
    for (Run *r = l->runs; found && r; r = r->after)
        if (r->thread == here && r->count && !r->done && PyList_Append(found, (PyObject *)r) < 0) Py_CLEAR(found);
    return found;
}

static PyObject *chain_new(PyTypeObject *type, PyObject *args, PyObject *kw) {
    static char *known[] = {"trial", "placeholder", "method", "calm", "checked", "settled", "steps_of", "harmless", "own_time", NULL};
    PyObject *g[OWN];
    int own = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kw, "OOOOOOOOp", known, &g[0], &g[1], &g[2], &g[3], &g[4], &g[5], &g[6], &g[7], &own)) return NULL;
    Chain *l = (Chain *)type->tp_alloc(type, 0);
    if (l) l->has_own_time = (char)own;
    for (int i = 0; l && i < OWN; i++) { Py_INCREF(g[i]); *ref(l, i) = g[i]; }
    return (PyObject *)l;
}

static int chain_traverse(Chain *l, visitproc visit, void *arg) {
    for (int i = 0; ref(l, i); i++) Py_VISIT(*ref(l, i));
    for (int i = 0; i < l->layouts; i++) { Py_VISIT(l->layout[i].make); Py_VISIT(l->layout[i].held); }
    return 0;
}

static int chain_clear(Chain *l) {
    l->open = 0;
    for (int i = 0; ref(l, i); i++) Py_CLEAR(*ref(l, i));
    forget_layouts(l);
    return 0;
}

static void chain_dealloc(Chain *l) {
    PyObject_GC_UnTrack(l);
    chain_clear(l);
    Py_TYPE(l)->tp_free((PyObject *)l);
}

static PyMethodDef chain_methods[] = {
    {"open", (PyCFunction)chain_open, METH_VARARGS, "open(specs, ops, rows, world) -> whether calls may go this way now"},
    {"learn", (PyCFunction)chain_learn, METH_VARARGS, "learn(specs, shape, strides, make, kernel, axes, held) -> whether such a source may come"},
    {"waiting", (PyCFunction)chain_waiting, METH_NOARGS, "waiting() -> the runs under way in this thread"}, {NULL, NULL, 0, NULL}};
static PyMemberDef chain_members[] = {{"is_open", T_BOOL, offsetof(Chain, open), READONLY, "whether calls may go this way"}, {NULL, 0, 0, 0, NULL}};
static PyTypeObject ChainType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "codedag.migrate._chain.Chain", .tp_basicsize = sizeof(Chain),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, .tp_doc = "The native chain of one chain.", .tp_new = chain_new,
    .tp_dealloc = (destructor)chain_dealloc, .tp_traverse = (traverseproc)chain_traverse, .tp_clear = (inquiry)chain_clear,
    .tp_methods = chain_methods, .tp_members = chain_members};

/* ---- variants of sites */

static PyObject *site_new(PyTypeObject *type, PyObject *args, PyObject *kw) {
    Chain *chain;
    int index, kind;
    PyObject *function, *slow;
    (void)kw;
    if (!PyArg_ParseTuple(args, "O!iiOO", &ChainType, &chain, &index, &kind, &function, &slow)) return NULL;
    Site *s = (Site *)type->tp_alloc(type, 0);
    if (!s) return NULL;
    s->vectorcall = index < 0 ? bystander_call : step_site_call; s->index = index; s->kind = kind;
    Py_INCREF(chain); s->chain = chain;
    Py_INCREF(function); s->function = function;
    Py_INCREF(slow); s->slow = slow;
    return (PyObject *)s;
}

static int site_traverse(Site *s, visitproc visit, void *arg) {
    Py_VISIT(s->chain); Py_VISIT(s->function); Py_VISIT(s->slow); Py_VISIT(s->known); Py_VISIT(s->kind_of);
    return 0;
}

static int site_clear(Site *s) {
    Py_CLEAR(s->chain); Py_CLEAR(s->function); Py_CLEAR(s->slow); Py_CLEAR(s->known); Py_CLEAR(s->kind_of);
    return 0;
}

static void site_dealloc(Site *s) { PyObject_GC_UnTrack(s); site_clear(s); Py_TYPE(s)->tp_free((PyObject *)s); }

static PyTypeObject SiteType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "codedag.migrate._chain.Site", .tp_basicsize = sizeof(Site),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_doc = "Site(chain, index, kind, function, slow): the variant of a site of a chain, or between its sites (-1).",
    .tp_new = site_new, .tp_dealloc = (destructor)site_dealloc, .tp_traverse = (traverseproc)site_traverse,
    .tp_clear = (inquiry)site_clear, .tp_call = PyVectorcall_Call, .tp_vectorcall_offset = offsetof(Site, vectorcall)};

/* ---- the module */

static PyObject *table_of(PyObject *m, PyObject *args) {
    (void)m;
    PyObject *ops, *numbers_;
    int rows, count, used = 0;
    Op op[MOST_OPS];
    Slot slots[MOST_PARAMETERS];
    double values[MOST_VALUES];
    char table[MOST_ROWS * 256 * 8];
    if (!PyArg_ParseTuple(args, "O!O!i", &PyTuple_Type, &ops, &PyTuple_Type, &numbers_, &rows) || !read_ops(ops, op, &count)) return NULL;
    Py_ssize_t many = PyTuple_GET_SIZE(numbers_);
    if (rows > MOST_ROWS || rows < 1 || many > MOST_PARAMETERS) Py_RETURN_NONE;
    for (Py_ssize_t i = 0; i < many; i++) {
        PyObject *one = PyTuple_GET_ITEM(numbers_, i);
        slots[i].start = used; slots[i].count = (int)PyTuple_GET_SIZE(one);
        if (used + slots[i].count > MOST_VALUES || (slots[i].count > 1 && slots[i].count != rows)) Py_RETURN_NONE;
        for (Py_ssize_t k = 0; k < slots[i].count; k++) values[used++] = PyFloat_AsDouble(PyTuple_GET_ITEM(one, k));
    }
    if (PyErr_Occurred()) return NULL;
    for (int i = 0; i < count; i++) if (op[i].source >= many) Py_RETURN_NONE;
    if (!count || !fill_table(op, count, slots, values, rows, table)) Py_RETURN_NONE;
    return PyBytes_FromStringAndSize(table, (Py_ssize_t)rows * 256 * size_of[op[count - 1].type]);
}

static PyMethodDef functions[] = {
    {"table", table_of, METH_VARARGS, "table(ops, numbers, rows) -> the bytes of the table, or None if it is made in another way"},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "codedag.migrate._chain", "The native chain of chains.", -1, functions, NULL, NULL, NULL, NULL};

static int add_constants(PyObject *m) {
    static const struct { const char *name; int value; } all[] = {
        {"BYTE", BYTE}, {"SINGLE", SINGLE}, {"DOUBLE", DOUBLE}, {"CAST", CAST}, {"ADD", ADD}, {"SUB", SUB}, {"RSUB", RSUB},
        {"MUL", MUL}, {"DIV", DIV}, {"RDIV", RDIV}, {"LEAST", LEAST}, {"MOST", MOST}, {"NEG", NEG}, {"ABS", ABS},
        {"ROOT", ROOT}, {"SQUARE", SQUARE}, {"NUMBER", NUMBER}, {"ARRAY", ARRAY}, {"FIXED", FIXED}, {"MOST_ROWS", MOST_ROWS}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (PyModule_AddIntConstant(m, all[i].name, all[i].value) < 0) return 0;
    return 1;
}

PyMODINIT_FUNC PyInit__chain(void) {
    static const struct { PyObject **place; const char *text; } names[] = {
        {&s_active, "active"}, {&s_deferred, "deferred"}, {&s_placeholder, "placeholder"}, {&s_name, "name"}, {&s_due, "due"},
        {&s_dtype, "dtype"}, {&s_data_ptr, "data_ptr"}, {&s_filters, "filters"}, {&s_is_next, "is_next"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (!(*names[i].place = PyUnicode_InternFromString(names[i].text))) return NULL;
    PyObject *m = PyModule_Create(&module);
    int fine = m && add_constants(m) && PyModule_AddType(m, &ChainType) == 0 && PyModule_AddType(m, &RunType) == 0 && PyModule_AddType(m, &SiteType) == 0;
    if (!fine) Py_CLEAR(m);
    return m;
}
