/* Sites: what a call, operator or subscript of rewritten user code becomes.
 *
 * A Site is a callable that stands in the code object as a constant.  It forwards to the original operation without
 * a Python frame (so tracebacks, recursion depth, warnings and sys._getframe stay as they were), and in its two other
 * modes either tells a recorder what went in and what came out, or hands the call to a variant.
 * _twin.py is the same in plain Python; tests hold the two to the same behaviour.  Public C-API only, Python >= 3.11.
 */
#define _GNU_SOURCE
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <frameobject.h>
#include <structmember.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include "_recorder.h"

enum { CALL, BINARY, UNARY, INPLACE, GETITEM, SETITEM, RETURN, ITERATE };
enum { PASS, RECORD, VARIANT };

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    int kind, mode;
    int operation;          /* index into the operator tables, for BINARY, UNARY and INPLACE */
    PyObject *info;         /* static facts about the place in the source; opaque here */
    PyObject *function;     /* the function of module `operator` that this site stands for, or None */
    PyObject *variant;      /* called instead, with the same arguments, in mode VARIANT */
    long long calls, nanoseconds; /* of recorded executions that moved no data (nanoseconds: of those that were timed) */
    int quiet;              /* timed calls of user code in a row in which no data moved: after some, few are timed */
} Site;

typedef struct {
    Site *site;
    long long start, child, overhead;
    long path;              /* the recorder's number for the chain of sites up to here; -1 = not asked for yet */
    int user, children;
    long long serial;       /* which call this is: greenlets may leave calls in another order than they entered them */
    PyObject *returned;     /* what user code gave back to this library call, as the recorder noted it */
} Frame;

#define FEW 24
static _Thread_local Frame first[FEW];  /* freed with the thread; deeper stacks are on the heap until they are empty */
static _Thread_local Frame *stack = NULL;
static _Thread_local int depth = 0, room = 0, busy = 0;
static _Thread_local long long serials = 0;
static _Thread_local PyObject *interrupt[3]; /* what a signal handler raised while the recorder ran: the program's own */
static _Thread_local char *stack_end = NULL; /* below this address the C stack is nearly used up */

static PyObject *recorder = NULL;   /* object with path, operation, region, note, is_user */
static PyObject *capsule = NULL;    /* the recorder's functions in C, if it has them, */
static const RecorderApi *api = NULL; /* which are called instead of its methods */
static PyObject *user_files = NULL; /* set of co_filename */
static PyObject *user_types = NULL; /* dict weak reference to a type -> bool */
static PyObject *failure = NULL;    /* first exception raised by the recorder, as text */
static int recording = 0;
static long long spent = 0;         /* nanoseconds that recording itself took */
static PyTypeObject SiteType, SiteIteratorType;

static inline long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* ---- operators ---------------------------------------------------------------------------------------------- */

static PyObject *power(PyObject *a, PyObject *b) { return PyNumber_Power(a, b, Py_None); }
static PyObject *inplace_power(PyObject *a, PyObject *b) { return PyNumber_InPlacePower(a, b, Py_None); }
#define COMPARE(name, code) static PyObject *name(PyObject *a, PyObject *b) { return PyObject_RichCompare(a, b, code); }
COMPARE(less, Py_LT) COMPARE(less_equal, Py_LE) COMPARE(greater, Py_GT)
COMPARE(greater_equal, Py_GE) COMPARE(equal, Py_EQ) COMPARE(not_equal, Py_NE)

typedef struct { const char *name; binaryfunc two; unaryfunc one; } Operation;
static const Operation OPERATIONS[] = {
    {"add", PyNumber_Add, 0}, {"sub", PyNumber_Subtract, 0}, {"mul", PyNumber_Multiply, 0},
    {"truediv", PyNumber_TrueDivide, 0}, {"floordiv", PyNumber_FloorDivide, 0}, {"mod", PyNumber_Remainder, 0},
    {"pow", power, 0}, {"matmul", PyNumber_MatrixMultiply, 0}, {"lshift", PyNumber_Lshift, 0},
    {"rshift", PyNumber_Rshift, 0}, {"or_", PyNumber_Or, 0}, {"xor", PyNumber_Xor, 0}, {"and_", PyNumber_And, 0},
    {"lt", less, 0}, {"le", less_equal, 0}, {"gt", greater, 0}, {"ge", greater_equal, 0}, {"eq", equal, 0},
    {"ne", not_equal, 0}, {"neg", 0, PyNumber_Negative}, {"pos", 0, PyNumber_Positive}, {"invert", 0, PyNumber_Invert},
    {"iadd", PyNumber_InPlaceAdd, 0}, {"isub", PyNumber_InPlaceSubtract, 0}, {"imul", PyNumber_InPlaceMultiply, 0},
    {"itruediv", PyNumber_InPlaceTrueDivide, 0}, {"ifloordiv", PyNumber_InPlaceFloorDivide, 0},
    {"imod", PyNumber_InPlaceRemainder, 0}, {"ipow", inplace_power, 0},
    {"imatmul", PyNumber_InPlaceMatrixMultiply, 0}, {"ilshift", PyNumber_InPlaceLshift, 0},
    {"irshift", PyNumber_InPlaceRshift, 0}, {"ior", PyNumber_InPlaceOr, 0}, {"ixor", PyNumber_InPlaceXor, 0},
    {"iand", PyNumber_InPlaceAnd, 0}, {NULL, 0, 0}};

/* ---- small questions ---------------------------------------------------------------------------------------- */

static inline int is_scalar(PyObject *o) {
    PyTypeObject *t = Py_TYPE(o);
    return t == &PyLong_Type || t == &PyBool_Type || o == Py_None || t == &PyUnicode_Type || t == &PyRange_Type ||
           t == &PySlice_Type || t == &PyType_Type || t == &PyFunction_Type || t == &PyModule_Type;
}

static inline int is_number(PyObject *o) {
    PyTypeObject *t = Py_TYPE(o);
    return t == &PyLong_Type || t == &PyFloat_Type || t == &PyBool_Type;
}

/* ---- recording ---------------------------------------------------------------------------------------------- */

/* Whether what was raised inside the recorder belongs to the program: Ctrl-C, or what one of its handlers raised. */
static int is_interrupt(PyObject *type, PyObject *value, PyObject *trace) {
    if (!type || !PyErr_GivenExceptionMatches(type, PyExc_Exception)) return type != NULL;
    PyObject *module = PyImport_ImportModule("codedag.instrument.signals");
    PyObject *answer = module ? PyObject_CallMethod(module, "raised_by_handler", "O", trace ? trace : Py_None) : NULL;
    int yes = answer == Py_True;
    if (!answer) PyErr_Clear();
    Py_XDECREF(answer); Py_XDECREF(module);
    return yes;
}

static void recorder_failed(void) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (!interrupt[0] && is_interrupt(type, value, trace)) {
        interrupt[0] = type; interrupt[1] = value; interrupt[2] = trace;
        return;
    }
    recording = 0;
    if (!failure) {
        failure = PyUnicode_FromFormat("%S: %S", type ? type : Py_None, value ? value : Py_None);
        if (!failure) PyErr_Clear();
    }
    Py_XDECREF(type); Py_XDECREF(value); Py_XDECREF(trace);
}

static PyObject *unless_interrupted(PyObject *result) {
    if (!interrupt[0]) return result;
    Py_XDECREF(result);
    PyErr_Restore(interrupt[0], interrupt[1], interrupt[2]);
    interrupt[0] = interrupt[1] = interrupt[2] = NULL;
    return NULL;
}

/* Around every call of the recorder: it is not recorded itself, and profilers and debuggers do not see it. */
static void enter(void) { busy = 1; PyThreadState_EnterTracing(PyThreadState_Get()); }
static void leave(void) { PyThreadState_LeaveTracing(PyThreadState_Get()); busy = 0; }

static int is_user_type(PyObject *type) {
    PyObject *key = PyWeakref_NewRef(type, NULL); /* a class must not live longer because it was called */
    PyObject *known = key ? PyDict_GetItemWithError(user_types, key) : NULL;
    if (known || !key || PyErr_Occurred()) { PyErr_Clear(); Py_XDECREF(key); return known == Py_True; }
    enter();
    PyObject *answer = PyObject_CallMethod(recorder, "is_user", "O", type);
    int yes = answer == Py_True;
    if (!answer) recorder_failed();
    else if (PyDict_SetItem(user_types, key, yes ? Py_True : Py_False) < 0) PyErr_Clear();
    Py_XDECREF(answer);
    Py_DECREF(key);
    leave();
    return yes;
}

static int is_user_callable(PyObject *f) {
    if (PyMethod_Check(f)) f = PyMethod_GET_FUNCTION(f);
    if (PyFunction_Check(f)) {
        PyObject *name = ((PyCodeObject *)PyFunction_GET_CODE(f))->co_filename;
        int known = PySet_Contains(user_files, name);
        if (known < 0) PyErr_Clear();
        return known == 1;
    }
    if (PyCFunction_Check(f)) return 0;
    return is_user_type(PyType_Check(f) ? f : (PyObject *)Py_TYPE(f));
}

static int grow(void) {
    int wanted = room ? room * 2 : FEW;
    Frame *bigger = room == 0 ? first : stack == first ? malloc(wanted * sizeof(Frame)) : realloc(stack, wanted * sizeof(Frame));
    if (!bigger) return 0;
    if (stack == first) memcpy(bigger, first, room * sizeof(Frame));
    stack = bigger; room = wanted;
    return 1;
}

static void shrink(void) {
    if (stack != first) free(stack);
    stack = first; room = FEW;
}

/* Reading the clock costs more than a small Python function.  A call of user code that never moved data is timed only now
 * and then, where nobody's own time depends on it: a region has none, a library call that calls back has. */
#define QUIET 64
static inline int is_timed(Site *site, int user) {
    return !user || site->quiet < QUIET || site->calls % QUIET == 0 || (depth && !stack[depth - 1].user);
}

static long long push(Site *site, int user) { /* the serial of the new frame, 0 if there is no memory for one */
    if (depth == room && !grow()) return 0;
    int timed = is_timed(site, user);
    Frame *f = &stack[depth++];
    f->site = site; f->child = f->overhead = 0; f->path = -1; f->user = user; f->children = 0; f->returned = NULL;
    f->serial = ++serials;
    f->start = timed ? now() : 0;
    return f->serial;
}

static long ask_path(long parent, PyObject *site) {
    if (api) return api->path(api->self, parent, site);
    PyObject *number = PyObject_CallMethod(recorder, "path", "lO", parent, site);
    long path = number ? PyLong_AsLong(number) : -1;
    Py_XDECREF(number);
    return path;
}

static long path_of(int i) {
    if (i < 0) return -1;
    if (stack[i].path < 0) {
        long parent = path_of(i - 1);
        if (i > 0 && parent < 0) return -1;
        long path = ask_path(parent, (PyObject *)stack[i].site);
        if (path < 0) { recorder_failed(); return -1; }
        stack[i].path = path;
        stack[i].site->quiet = 0;
        for (int j = i + 1; !stack[i].start && j < depth; j++) stack[i].start = stack[j].start; /* it moves data after all */
        if (i > 0) stack[i - 1].children++;
    }
    return stack[i].path;
}

static int moved_data(Frame *f, PyObject *function, PyObject *const *args, Py_ssize_t n, PyObject *result) {
    if (f->children || f->returned) return 1;
    if (result && !is_scalar(result) && Py_TYPE(result) != &PyFloat_Type && Py_TYPE(result) != &PyBytes_Type) return 1;
    for (Py_ssize_t i = 0; i < n; i++)
        if (!is_scalar(args[i])) return 1;
    if (function && PyCFunction_Check(function)) {
        PyObject *self = PyCFunction_GET_SELF(function);
        if (self && !is_scalar(self)) return 1;
    } else if (function && function != Py_None && !PyFunction_Check(function)) return 1;
    return 0;
}

static PyObject *keywords_of(PyObject *const *values, PyObject *names) {
    PyObject *d = PyDict_New();
    if (d && names)
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); i++)
            if (PyDict_SetItem(d, PyTuple_GET_ITEM(names, i), values[i]) < 0) { Py_DECREF(d); return NULL; }
    return d;
}

/* Tell the recorder about a finished operation; result is NULL if it raised.  Called with no exception set; never leaves one. */
static void tell(long path, Frame *f, PyObject *function, PyObject *const *args, Py_ssize_t n, PyObject *names,
                 PyObject *result, long long total) {
    PyObject *site = (PyObject *)f->site;
    if (api) {
        int done = f->user ? api->region(api->self, path, site, function, total, total - f->child)
                           : api->operation(api->self, path, site, f->site->kind, function, args, n, names, result, total,
                                            total - f->child, f->returned);
        if (done < 0) recorder_failed();
        else if (done == 0 && !f->user) { f->site->calls++; f->site->nanoseconds += total; }
        return;
    }
    PyObject *positional = PyTuple_New(n), *keywords = keywords_of(args + n, names), *done = NULL;
    if (positional && keywords) {
        for (Py_ssize_t i = 0; i < n; i++) { Py_INCREF(args[i]); PyTuple_SET_ITEM(positional, i, args[i]); }
        PyObject *returned = f->returned ? f->returned : Py_None;
        done = f->user ? PyObject_CallMethod(recorder, "region", "lOOOOOLLO", path, site, function, positional, keywords,
                                             result, total, total - f->child, returned)
                       : PyObject_CallMethod(recorder, "operation", "lOOOOOLLOO", path, site, function, positional, keywords,
                                             result ? result : Py_None, total, total - f->child, returned,
                                             result ? Py_False : Py_True);
    }
    Py_XDECREF(positional); Py_XDECREF(keywords);
    if (!done) recorder_failed(); else Py_DECREF(done);
}

/* Close the frame that `push` opened at `mine` and record what happened in it (result NULL: it raised; no function: do
 * not).  A region that raised is not told: what ran in it was. */
static void finish(int mine, long long serial, PyObject *function, PyObject *const *args, Py_ssize_t n, PyObject *names, PyObject *result) {
    if (mine >= depth || stack[mine].serial != serial) return;
    if (!stack[mine].start) { /* not timed, so nothing was told in it */
        depth = mine;
        stack[mine].site->calls++;
        return;
    }
    long long end = now();
    Frame f = stack[mine];
    long long total = end - f.start - f.overhead;
    int told = 0;
    depth = mine + 1;
    if (function && (result || !f.user) && recording && !busy) {
        enter();
        Py_ssize_t every = n + (names ? PyTuple_GET_SIZE(names) : 0);
        if (f.user ? (f.children > 0) : moved_data(&f, function, args, every, result)) {
            long path = path_of(mine);
            if (path >= 0) tell(path, &f, function, args, n, names, result, total);
            told = 1;
        } else { f.site->calls++; f.site->nanoseconds += total; f.site->quiet += f.site->quiet < QUIET; }
        f.returned = stack[mine].returned;
        leave();
    }
    depth = mine;
    Py_XDECREF(f.returned);
    long long cost = told ? now() - end : 0;
    spent += cost;
    if (mine > 0) { stack[mine - 1].child += total; stack[mine - 1].overhead += f.overhead + cost; }
    else if (room > FEW) shrink();
}

/* ---- the C stack -------------------------------------------------------------------------------------------- */

#define RESERVE (512 * 1024) /* for what the called function itself needs */
static char *end_of_stack(void) {
#if defined(__linux__)
    pthread_attr_t attributes;
    void *lowest = NULL;
    size_t size = 0;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        pthread_attr_getstack(&attributes, &lowest, &size);
        pthread_attr_destroy(&attributes);
    }
    return lowest ? (char *)lowest + (size > 4 * RESERVE ? RESERVE : size / 4) : (char *)1;
#else
    return (char *)1;
#endif
}

/* ---- forwarding --------------------------------------------------------------------------------------------- */

/* Python calls Python without using the C stack; through a site it is used, and must not overflow. */
static int has_stack(void) {
    char here;
    if (!stack_end) stack_end = end_of_stack();
    if ((uintptr_t)&here > (uintptr_t)stack_end) return 1;
    PyErr_SetString(PyExc_RecursionError, "maximum recursion depth exceeded: the C stack is used up");
    return 0;
}

/* `flag` is PY_VECTORCALL_ARGUMENTS_OFFSET if our caller lets us change what stands before its arguments. */
static PyObject *forward(Site *s, PyObject *const *args, Py_ssize_t n, size_t flag, PyObject *names) {
    switch (s->kind) {
    case CALL: return has_stack() ? PyObject_Vectorcall(args[0], args + 1, (size_t)(n - 1) | flag, names) : NULL;
    case BINARY: case INPLACE: return OPERATIONS[s->operation].two(args[0], args[1]);
    case UNARY: return OPERATIONS[s->operation].one(args[0]);
    case GETITEM: return PyObject_GetItem(args[0], args[1]);
    case SETITEM: /* value, object, index: the order in which an assignment evaluates them */
        if (PyObject_SetItem(args[1], args[2], args[0]) < 0) return NULL;
        Py_RETURN_NONE;
    default: Py_INCREF(args[0]); return args[0];
    }
}

static PyObject *note_return(PyObject *value) {
    if (depth && !stack[depth - 1].user && !is_scalar(value) && recording && !busy) {
        enter();
        Frame *f = &stack[depth - 1];
        PyObject *noted = api ? api->note(api->self, value, f->returned)
                              : PyObject_CallMethod(recorder, "note", "OO", value, f->returned ? f->returned : Py_None);
        if (!noted) recorder_failed();
        else { Py_XSETREF(stack[depth - 1].returned, noted); }
        leave();
    }
    Py_INCREF(value);
    return unless_interrupted(value);
}

static int is_plain_iterable(PyObject *o) {
    return PyList_CheckExact(o) || PyTuple_CheckExact(o) || PyDict_CheckExact(o) || PyUnicode_CheckExact(o) ||
           PyRange_Check(o) || PyAnySet_CheckExact(o) || PyGen_CheckExact(o) || Py_TYPE(o) == &PyZip_Type ||
           Py_TYPE(o) == &PyEnum_Type || Py_TYPE(o) == &PyMap_Type || Py_TYPE(o) == &PyFilter_Type ||
           PyDictViewSet_Check(o) || Py_TYPE(o) == &PyDictValues_Type;
}

typedef struct { PyObject_HEAD Site *site; PyObject *inner; } SiteIterator;

static PyObject *wrap_iterable(Site *s, PyObject *iterable) {
    if (is_plain_iterable(iterable)) { Py_INCREF(iterable); return iterable; }
    PyObject *inner = PyObject_GetIter(iterable);
    if (!inner) return NULL;
    if (is_plain_iterable(inner)) return inner;
    SiteIterator *it = PyObject_GC_New(SiteIterator, &SiteIteratorType);
    if (!it) { Py_DECREF(inner); return NULL; }
    Py_INCREF(s); it->site = s; it->inner = inner;
    PyObject_GC_Track(it);
    return (PyObject *)it;
}

static int moves_nothing(int kind, PyObject *const *args) {
    switch (kind) {
    case BINARY: case INPLACE: return is_number(args[0]) && is_number(args[1]);
    case UNARY: return is_number(args[0]);
    case GETITEM: return PyList_CheckExact(args[0]) || PyTuple_CheckExact(args[0]) || PyDict_CheckExact(args[0]) ||
                         PyUnicode_CheckExact(args[0]);
    case SETITEM: return PyList_CheckExact(args[1]) || PyDict_CheckExact(args[1]);
    default: return 0;
    }
}

static int asks = 0; /* whether the recorder, in Python, says which numbers carry data */

static int ask_carries(PyObject *number) {
    if (api) return api->carries(api->self, number);
    enter();
    PyObject *answer = PyObject_CallMethod(recorder, "carries", "O", number);
    if (!answer) recorder_failed();
    leave();
    Py_XDECREF(answer);
    return answer == Py_True;
}

static inline int carries(PyObject *number) { return PyFloat_CheckExact(number) && (api || asks) && ask_carries(number); }

static PyObject *record(Site *s, PyObject *const *args, Py_ssize_t n, size_t flag, PyObject *names) {
    if (s->kind == RETURN) return note_return(args[0]);
    if (s->kind == ITERATE) return wrap_iterable(s, args[0]);
    if (moves_nothing(s->kind, args) && !(s->kind <= INPLACE && (carries(args[0]) || (n > 1 && carries(args[1]))))) { s->calls++; return forward(s, args, n, flag, names); }
    int call = s->kind == CALL, user = call ? is_user_callable(args[0]) : 0, mine = depth;
    if (interrupt[0]) return unless_interrupted(NULL);
    long long serial = push(s, user);
    PyObject *result = forward(s, args, n, flag, names);
    if (!serial) return result;
    PyObject *function = call ? args[0] : s->function;
    PyObject *type = NULL, *value = NULL, *trace = NULL;
    if (!result) PyErr_Fetch(&type, &value, &trace);
    finish(mine, serial, function, args + call, n - call, names, result);
    if (!result) PyErr_Restore(type, value, trace);
    return unless_interrupted(result);
}

/* A traceback shows the program's frames, not those of a variant: entries at its outer end that are ours are left out.
 * Ours is what lies in our package, and the code by which a variant calls on as from the user's line. */
static PyObject *home = NULL, *our_codes = NULL;

static int is_ours(PyTracebackObject *entry) {
    PyCodeObject *code = PyFrame_GetCode(entry->tb_frame);
    int ours = home && PyUnicode_Tailmatch(code->co_filename, home, 0, PY_SSIZE_T_MAX, -1) == 1;
    if (!ours && our_codes) {
        PyObject *key = PyLong_FromVoidPtr(code);
        ours = key && PySet_Contains(our_codes, key) == 1;
        Py_XDECREF(key);
    }
    Py_DECREF(code);
    return ours;
}

static void hide_our_frames(void) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyTracebackObject *entry = (PyTracebackObject *)trace;
    while (entry && is_ours(entry)) entry = entry->tb_next;
    PyErr_Clear();
    Py_XINCREF((PyObject *)entry);
    Py_XDECREF(trace);
    if (value && PyExceptionInstance_Check(value)) PyException_SetTraceback(value, entry ? (PyObject *)entry : Py_None);
    PyErr_Restore(type, value, (PyObject *)entry);
}

static PyObject *hide(PyObject *m, PyObject *what) {
    (void)m;
    if (PyUnicode_Check(what)) { Py_INCREF(what); Py_XSETREF(home, what); Py_RETURN_NONE; }
    PyObject *key = PyLong_FromVoidPtr(what);
    if (!key || (!our_codes && !(our_codes = PySet_New(NULL)))) { Py_XDECREF(key); return NULL; }
    int failed = PySet_Add(our_codes, key) < 0;
    Py_DECREF(key);
    Py_INCREF(what); /* its address must stay its own */
    if (failed) return NULL;
    Py_RETURN_NONE;
}

static PyObject *vary(Site *s, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    PyObject *variant = s->variant; /* another thread may take it away while it runs */
    Py_INCREF(variant);
    PyObject *result = PyObject_Vectorcall(variant, args, n, names);
    Py_DECREF(variant);
    if (!result) hide_our_frames();
    return result;
}

static const Py_ssize_t LEAST[] = {1, 2, 1, 2, 2, 3, 1, 1}; /* arguments, by kind */

static PyObject *site_call(PyObject *self, PyObject *const *args, size_t nf, PyObject *names) {
    Site *s = (Site *)self;
    Py_ssize_t n = PyVectorcall_NARGS(nf);
    if (n < LEAST[s->kind]) return PyErr_Format(PyExc_TypeError, "this site takes at least %zd arguments", LEAST[s->kind]);
    size_t flag = nf & PY_VECTORCALL_ARGUMENTS_OFFSET;
    if (s->mode == VARIANT && s->variant && s->variant != Py_None) return vary(s, args, n, names);
    if (s->mode == RECORD && recording && !busy) return record(s, args, n, flag, names);
    return forward(s, args, n, flag, names);
}

/* ---- the iterator of a `for` over something that works (a DataLoader): each __next__ is an operation ---------- */

static PyObject *iterator_next(SiteIterator *it) {
    iternextfunc next = Py_TYPE(it->inner)->tp_iternext;
    if (!(it->site->mode == RECORD && recording && !busy)) return next(it->inner);
    int mine = depth;
    long long serial = push(it->site, 0);
    PyObject *result = next(it->inner), *type = NULL, *value = NULL, *trace = NULL;
    if (!serial) return result;
    if (!result) PyErr_Fetch(&type, &value, &trace);
    finish(mine, serial, result ? it->inner : NULL, NULL, 0, NULL, result); /* the end of the loop is no operation */
    if (!result) PyErr_Restore(type, value, trace);
    return unless_interrupted(result);
}
static int iterator_traverse(SiteIterator *it, visitproc visit, void *arg) { Py_VISIT(it->site); Py_VISIT(it->inner); return 0; }
static int iterator_clear(SiteIterator *it) { Py_CLEAR(it->site); Py_CLEAR(it->inner); return 0; }
static void iterator_dealloc(SiteIterator *it) { PyObject_GC_UnTrack(it); iterator_clear(it); PyObject_GC_Del(it); }
static PyTypeObject SiteIteratorType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "codedag.instrument._site.SiteIterator", .tp_basicsize = sizeof(SiteIterator),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, .tp_dealloc = (destructor)iterator_dealloc,
    .tp_traverse = (traverseproc)iterator_traverse, .tp_clear = (inquiry)iterator_clear,
    .tp_iter = PyObject_SelfIter, .tp_iternext = (iternextfunc)iterator_next};

/* ---- the type ------------------------------------------------------------------------------------------------ */

static int site_init(Site *s, PyObject *args, PyObject *kw) {
    static char *names[] = {"kind", "info", "function", NULL};
    PyObject *info, *function = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kw, "iO|O", names, &s->kind, &info, &function)) return -1;
    if (s->kind < CALL || s->kind > ITERATE) { PyErr_SetString(PyExc_ValueError, "unknown kind of site"); return -1; }
    s->operation = -1;
    if (s->kind == BINARY || s->kind == UNARY || s->kind == INPLACE) {
        PyObject *name = PyObject_GetAttrString(function, "__name__");
        if (!name) return -1;
        for (int i = 0; OPERATIONS[i].name; i++)
            if (PyUnicode_CompareWithASCIIString(name, OPERATIONS[i].name) == 0) s->operation = i;
        Py_DECREF(name);
        if (s->operation < 0) { PyErr_Format(PyExc_ValueError, "not an operator: %S", function); return -1; }
    }
    Py_INCREF(info); Py_XSETREF(s->info, info);
    Py_INCREF(function); Py_XSETREF(s->function, function);
    return 0;
}
static PyObject *site_new(PyTypeObject *type, PyObject *args, PyObject *kw) {
    Site *s = (Site *)type->tp_alloc(type, 0);
    if (s) s->vectorcall = site_call;
    return (PyObject *)s;
}
static int site_traverse(Site *s, visitproc visit, void *arg) { Py_VISIT(s->info); Py_VISIT(s->function); Py_VISIT(s->variant); return 0; }
static int site_clear(Site *s) { Py_CLEAR(s->info); Py_CLEAR(s->function); Py_CLEAR(s->variant); return 0; }
static void site_dealloc(Site *s) { PyObject_GC_UnTrack(s); site_clear(s); Py_TYPE(s)->tp_free((PyObject *)s); }
static PyMemberDef site_members[] = {
    {"kind", T_INT, offsetof(Site, kind), READONLY, "CALL .. ITERATE"},
    {"mode", T_INT, offsetof(Site, mode), 0, "PASS, RECORD or VARIANT"},
    {"info", T_OBJECT, offsetof(Site, info), READONLY, "the place in the source"},
    {"function", T_OBJECT, offsetof(Site, function), READONLY, "the operator function this site stands for"},
    {"variant", T_OBJECT, offsetof(Site, variant), 0, "what runs instead in mode VARIANT"},
    {"calls", T_LONGLONG, offsetof(Site, calls), 0, "recorded executions that moved no data"},
    {"nanoseconds", T_LONGLONG, offsetof(Site, nanoseconds), 0, "their time"},
    {NULL, 0, 0, 0, NULL}};
static PyTypeObject SiteType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "codedag.instrument._site.Site", .tp_basicsize = sizeof(Site),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_doc = "A place in user code that can be passed through, recorded or replaced.",
    .tp_new = site_new, .tp_init = (initproc)site_init, .tp_dealloc = (destructor)site_dealloc,
    .tp_traverse = (traverseproc)site_traverse, .tp_clear = (inquiry)site_clear, .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Site, vectorcall), .tp_members = site_members};

/* `f(*a)`: f is bound to its site before the arguments are spread, so that Python's errors about them name f. */
typedef struct { PyObject_HEAD Site *site; PyObject *function; vectorcallfunc vectorcall; } Spread; /* function: when bound */
static PyTypeObject SpreadType, BoundSiteType;

static Spread *bound(PyTypeObject *type, Site *site, PyObject *function) {
    Spread *s = PyObject_GC_New(Spread, type);
    if (!s) return NULL;
    Py_INCREF(site); s->site = site;
    Py_XINCREF(function); s->function = function;
    PyObject_GC_Track(s);
    return s;
}
static PyObject *spread_call(PyObject *self, PyObject *const *args, size_t nf, PyObject *names) {
    if (PyVectorcall_NARGS(nf) != 1) return PyErr_Format(PyExc_TypeError, "one function is bound to a site");
    return (PyObject *)bound(&BoundSiteType, ((Spread *)self)->site, args[0]);
}
static PyObject *spread_new(PyTypeObject *type, PyObject *args, PyObject *kw) {
    PyObject *site;
    if (!PyArg_ParseTuple(args, "O!", &SiteType, &site)) return NULL;
    Spread *s = bound(type, (Site *)site, NULL);
    if (s) s->vectorcall = spread_call;
    return (PyObject *)s;
}
static PyObject *bound_call(Spread *self, PyObject *args, PyObject *kw) {
    Site *s = self->site;
    if (s->mode == PASS) return has_stack() ? PyObject_Call(self->function, args, kw) : NULL;
    PyObject *all = PyTuple_New(PyTuple_GET_SIZE(args) + 1);
    if (!all) return NULL;
    Py_INCREF(self->function); PyTuple_SET_ITEM(all, 0, self->function);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); i++) {
        PyObject *each = PyTuple_GET_ITEM(args, i);
        Py_INCREF(each); PyTuple_SET_ITEM(all, i + 1, each);
    }
    PyObject *result = PyVectorcall_Call((PyObject *)s, all, kw);
    Py_DECREF(all);
    return result;
}
static PyObject *bound_getattro(Spread *self, PyObject *name) { return PyObject_GetAttr(self->function, name); }
static PyObject *bound_str(Spread *self) { return PyObject_Str(self->function); }
static int spread_traverse(Spread *s, visitproc visit, void *arg) { Py_VISIT(s->site); Py_VISIT(s->function); return 0; }
static int spread_clear(Spread *s) { Py_CLEAR(s->site); Py_CLEAR(s->function); return 0; }
static void spread_dealloc(Spread *s) { PyObject_GC_UnTrack(s); spread_clear(s); PyObject_GC_Del(s); }
static PyMemberDef spread_members[] = {
    {"site", T_OBJECT, offsetof(Spread, site), READONLY, "where it stands"}, {NULL, 0, 0, 0, NULL}};
static PyTypeObject SpreadType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "codedag.instrument._site.Spread", .tp_basicsize = sizeof(Spread),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_doc = "Binds the function of `f(*a, **k)` to its site before the arguments are spread.",
    .tp_new = spread_new, .tp_call = PyVectorcall_Call, .tp_vectorcall_offset = offsetof(Spread, vectorcall),
    .tp_traverse = (traverseproc)spread_traverse, .tp_clear = (inquiry)spread_clear,
    .tp_dealloc = (destructor)spread_dealloc, .tp_members = spread_members};
static PyTypeObject BoundSiteType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "codedag.instrument._site.BoundSite", .tp_basicsize = sizeof(Spread),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, .tp_call = (ternaryfunc)bound_call,
    .tp_getattro = (getattrofunc)bound_getattro, .tp_str = (reprfunc)bound_str,
    .tp_traverse = (traverseproc)spread_traverse, .tp_clear = (inquiry)spread_clear,
    .tp_dealloc = (destructor)spread_dealloc};

/* A loop reads `switch.on` at its head to choose between its two bodies. */
typedef struct { PyObject_HEAD PyObject *on; } Switch; /* an object slot: the interpreter specialises reading it */
static PyObject *switch_new(PyTypeObject *type, PyObject *args, PyObject *kw) {
    Switch *s = (Switch *)type->tp_alloc(type, 0);
    (void)args; (void)kw;
    if (s) { Py_INCREF(Py_False); s->on = Py_False; }
    return (PyObject *)s;
}
static void switch_dealloc(Switch *s) { Py_XDECREF(s->on); Py_TYPE(s)->tp_free((PyObject *)s); }
static PyMemberDef switch_members[] = {{"on", T_OBJECT_EX, offsetof(Switch, on), 0, "whether the loop runs the body with sites"}, {NULL, 0, 0, 0, NULL}};
static PyTypeObject SwitchType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "codedag.instrument._site.Switch", .tp_basicsize = sizeof(Switch),
    .tp_flags = Py_TPFLAGS_DEFAULT, .tp_new = switch_new, .tp_dealloc = (destructor)switch_dealloc,
    .tp_members = switch_members,
    .tp_doc = "Chooses the body of one loop: with sites (on) or plain."};

/* ---- the module ---------------------------------------------------------------------------------------------- */

static PyObject *start(PyObject *m, PyObject *args) {
    PyObject *r, *files;
    if (!PyArg_ParseTuple(args, "OO!", &r, &PySet_Type, &files)) return NULL;
    PyObject *offered = PyObject_GetAttrString(r, "_c_api");
    if (!offered) PyErr_Clear();
    const RecorderApi *table = offered && PyCapsule_IsValid(offered, RECORDER_CAPSULE)
                                   ? PyCapsule_GetPointer(offered, RECORDER_CAPSULE) : NULL;
    api = table && table->version == RECORDER_VERSION ? table : NULL;
    Py_XSETREF(capsule, offered);
    Py_INCREF(r); Py_XSETREF(recorder, r);
    asks = PyObject_HasAttrString(r, "carries");
    Py_INCREF(files); Py_XSETREF(user_files, files);
    PyDict_Clear(user_types);
    Py_CLEAR(failure);
    recording = 1;
    Py_RETURN_NONE;
}
static PyObject *stop(PyObject *m, PyObject *unused) { recording = 0; Py_RETURN_NONE; }
static PyObject *is_recording(PyObject *m, PyObject *unused) { return PyBool_FromLong(recording); }
static PyObject *get_failure(PyObject *m, PyObject *unused) {
    PyObject *text = failure ? failure : Py_None;
    Py_INCREF(text);
    return text;
}
static PyObject *get_spent(PyObject *m, PyObject *unused) { return PyLong_FromLongLong(spent); }
static PyMethodDef methods[] = {
    {"start", start, METH_VARARGS, "start(recorder, user_files): sites in mode RECORD tell this recorder."},
    {"stop", stop, METH_NOARGS, "stop(): nobody is told any more."},
    {"is_recording", is_recording, METH_NOARGS, "is_recording() -> bool"},
    {"spent", get_spent, METH_NOARGS, "spent() -> nanoseconds that recording itself took."},
    {"hide", hide, METH_O, "hide(folder or code): leave such frames of a variant out of tracebacks."},
    {"failure", get_failure, METH_NOARGS, "failure() -> why recording ended by itself, or None."},
    {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "codedag.instrument._site", .m_doc = "Sites in C; see _twin.py.", .m_size = -1,
    .m_methods = methods};

PyMODINIT_FUNC PyInit__site(void) {
    PyObject *m = PyModule_Create(&definition);
    if (!m) return NULL;
    user_types = PyDict_New();
    if (!user_types || PyType_Ready(&SiteIteratorType) < 0 || PyType_Ready(&BoundSiteType) < 0 ||
        PyModule_AddType(m, &SiteType) < 0 || PyModule_AddType(m, &SpreadType) < 0 || PyModule_AddType(m, &SwitchType) < 0) {
        Py_DECREF(m);
        return NULL;
    }
    return m;
}
