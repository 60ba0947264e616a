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
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include "_recorder.h"

enum { CALL, BINARY, UNARY, INPLACE, GETITEM, SETITEM, RETURN, ITERATE };
enum { PASS, RECORD, VARIANT };

/* Turns a set of variants on and off, all at once: many sites read one flag. */
typedef struct { PyObject_HEAD char on; } Flag;

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall; /* chosen by kind and mode */
    int kind, mode;
    binaryfunc two;         /* the operator, for BINARY and INPLACE */
    unaryfunc one;          /* for UNARY */
    binaryfunc ints;        /* the operator for two ints, without asking what they are */
    PyObject *info;         /* static facts about the place in the source; opaque here */
    PyObject *function;     /* the function of module `operator` that this site stands for, or None */
    PyObject *variant;      /* called instead, with the same arguments, in mode VARIANT */
    Flag *flag;             /* the variant runs while it is on; NULL: always */
    int follows;            /* not the first site of its change: where an operand is a placeholder, the variant runs all the same */
    PyObject *watch;        /* of a method of a library: told of every call after it has ended, or NULL */
    int always;             /* told also while nothing is recorded */
    PyObject *turns;        /* a counting switch that is read at each call, where calls are the program's turns, or NULL */
    long long calls, nanoseconds; /* of recorded executions that moved no data (nanoseconds: of those that were timed) */
    int quiet;              /* timed executions in a row in which no data moved: after some, few are timed, or looked at */
    long long tell_at;      /* how many of them somebody is told of */
    uintptr_t types;        /* what went in and came out when it was last looked at */
    int outermost;          /* recorded only where no other library call is under way */
    int returns;            /* its result is what the function returns */
    int regions;            /* user code was called here */
    int user;               /* whether the function last called here is the user's own, */
    PyObject *file;         /* whose code is in this file, */
    long long files;        /* as the set of user files was then */
} Site;

typedef struct {
    Site *site;
    long long start, child, overhead;
    long path;              /* the recorder's number for the chain of sites up to here; -1 = not asked for yet */
    int user, children;
    int level;              /* calls of user code up to here */
    int opaque;             /* what runs inside is not recorded: it lies too deep */
    long long serial;       /* which call this is: greenlets may leave calls in another order than they entered them */
    PyObject *returned;     /* what user code gave back to this library call, as the recorder noted it */
    long long base, peak;   /* traced memory when it began, and the most since (memory pass only) */
} Frame;

#define FEW 24
typedef struct {
    Frame *stack;           /* `first`; a deeper one is on the heap until it is empty */
    int depth, room, busy;
    long long serials;
    PyObject *interrupt[3]; /* what a signal handler raised while the recorder ran: the program's own */
    char *stack_end;        /* below this address the C stack is nearly used up */
    Frame first[FEW];
} Thread;

/* One pointer per thread, in the part of thread-local memory that is reached without a call. */
static _Thread_local Thread *mine_only
#if defined(__linux__)
    __attribute__((tls_model("initial-exec")))
#endif
    = NULL;
static pthread_key_t thread_key;
static int thread_key_made = 0;

static void thread_end(void *ended) {
    Thread *t = ended;
    if (t->stack != t->first) free(t->stack);
    free(t);
}

static Thread *thread_new(void) {
    static Thread none = {.busy = 1}; /* without memory nothing is recorded */
    Thread *t = calloc(1, sizeof *t);
    if (!t) return &none;
    t->stack = t->first; t->room = FEW;
    pthread_setspecific(thread_key, t);
    return mine_only = t;
}
static inline Thread *thread(void) { return mine_only ? mine_only : thread_new(); }

static PyObject *recorder = NULL;   /* object with path, operation, region, note, is_user */
static PyObject *capsule = NULL;    /* the recorder's functions in C, if it has them, */
static const RecorderApi *api = NULL; /* which are called instead of its methods */
static PyObject *user_files = NULL; /* set of co_filename */
static PyObject *user_types = NULL; /* dict weak reference to a type -> bool */
static PyObject *failure = NULL;    /* first exception raised by the recorder, as text */
static int recording = 0;
static int deepest = 0;             /* calls of user code inside each other that are looked into; 0 = all */
static long long starts = 0;        /* how often recording began */
static PyObject *keeper = NULL;     /* called now and then, to keep what was recorded so far */
static long long keep_at = LLONG_MAX;
static PyObject *idler = NULL;      /* told of a site that was executed many times without data */
static PyObject *traced_memory = NULL, *reset_peak = NULL; /* of tracemalloc, in a memory pass */
static long long told_calls = 0, told_usual = 0, spent_usual = 0; /* operations that the recorder knew already, and what they cost it */
#define UNUSUAL 20000               /* nanoseconds: what is seen for the first time takes so long */
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
    PyObject *type, *value, *trace, **interrupt = thread()->interrupt;
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

static void hide_our_frames(void);

static PyObject *unless_interrupted(Thread *t, PyObject *result) {
    PyObject **interrupt = t->interrupt;
    if (!interrupt[0]) return result;
    Py_XDECREF(result);
    PyErr_Restore(interrupt[0], interrupt[1], interrupt[2]);
    interrupt[0] = interrupt[1] = interrupt[2] = NULL;
    hide_our_frames(); /* the handler ran while our code did, which is nobody's business */
    return NULL;
}

/* Around every call of the recorder: it is not recorded itself, and profilers and debuggers do not see it. */
static void enter(Thread *t) { t->busy = 1; PyThreadState_EnterTracing(PyThreadState_Get()); }
static void leave(Thread *t) { PyThreadState_LeaveTracing(PyThreadState_Get()); t->busy = 0; }

static int is_user_type(Thread *t, PyObject *type) {
    PyObject *key = PyWeakref_NewRef(type, NULL); /* a class must not live longer because it was called */
    PyObject *known = key ? PyDict_GetItemWithError(user_types, key) : NULL;
    if (known || !key || PyErr_Occurred()) { PyErr_Clear(); Py_XDECREF(key); return known == Py_True; }
    enter(t);
    PyObject *answer = PyObject_CallMethod(recorder, "is_user", "O", type);
    int yes = answer == Py_True;
    if (!answer) recorder_failed();
    else if (PyDict_SetItem(user_types, key, yes ? Py_True : Py_False) < 0) PyErr_Clear();
    Py_XDECREF(answer);
    Py_DECREF(key);
    leave(t);
    return yes;
}

static int is_user_file(Site *s, PyObject *name) {
    long long files = starts << 32 | PySet_GET_SIZE(user_files);
    if (name == s->file && files == s->files) return s->user;
    int known = PySet_Contains(user_files, name);
    if (known < 0) { PyErr_Clear(); return 0; }
    Py_INCREF(name); Py_XSETREF(s->file, name);
    s->files = files;
    s->regions |= known;
    return s->user = known;
}

static int is_user_callable(Thread *t, Site *s, PyObject *f) {
    if (PyMethod_Check(f)) f = PyMethod_GET_FUNCTION(f);
    if (PyFunction_Check(f)) return is_user_file(s, ((PyCodeObject *)PyFunction_GET_CODE(f))->co_filename);
    if (PyCFunction_Check(f)) return 0;
    int yes = is_user_type(t, PyType_Check(f) ? f : (PyObject *)Py_TYPE(f));
    s->regions |= yes;
    return yes;
}

static int grow(Thread *t) {
    int wanted = t->room * 2;
    Frame *bigger = t->stack == t->first ? malloc(wanted * sizeof(Frame)) : realloc(t->stack, wanted * sizeof(Frame));
    if (!bigger) return 0;
    if (t->stack == t->first) memcpy(bigger, t->first, sizeof t->first);
    t->stack = bigger; t->room = wanted;
    return 1;
}

static void shrink(Thread *t) {
    if (t->stack != t->first) free(t->stack);
    t->stack = t->first; t->room = FEW;
}

/* ---- memory pass: the most that was allocated while a call ran, above what there was when it began ---------------- */

static void memory_now(long long *current, long long *peak) {
    PyObject *pair = PyObject_CallNoArgs(traced_memory);
    if (pair && PyTuple_Check(pair) && PyTuple_GET_SIZE(pair) == 2) {
        *current = PyLong_AsLongLong(PyTuple_GET_ITEM(pair, 0));
        *peak = PyLong_AsLongLong(PyTuple_GET_ITEM(pair, 1));
    }
    Py_XDECREF(pair);
    PyObject *done = PyObject_CallNoArgs(reset_peak);
    Py_XDECREF(done);
    PyErr_Clear();
}

static void memory_enter(Thread *t, Frame *f) {
    long long current = 0, peak = 0;
    enter(t);
    memory_now(&current, &peak);
    leave(t);
    if (t->depth > 1 && t->stack[t->depth - 2].peak < peak) t->stack[t->depth - 2].peak = peak;
    f->base = f->peak = current;
}

static long long memory_leave(Thread *t, int mine) {
    long long current = 0, peak = 0;
    Frame *f = &t->stack[mine];
    memory_now(&current, &peak);
    if (f->peak < peak) f->peak = peak;
    if (mine > 0 && t->stack[mine - 1].peak < f->peak) t->stack[mine - 1].peak = f->peak;
    return f->peak - f->base;
}

/* ---- frames -------------------------------------------------------------------------------------------------- */

/* Reading the clock costs more than a small Python function.  A call of user code that never moved data is timed only now
 * and then, where nobody's own time depends on it: a region has none, a library call that calls back has. */
#define QUIET 64
static inline int is_timed(const Thread *t, const Site *site, int user) {
    return !user || site->quiet < QUIET || site->calls % QUIET == 0 || (t->depth && !t->stack[t->depth - 1].user);
}

static inline long long push(Thread *t, Site *site, int user) { /* the serial of the new frame, 0 if there is no memory for one */
    if (t->depth == t->room && !grow(t)) return 0;
    int timed = is_timed(t, site, user);
    Frame *f = &t->stack[t->depth];
    f->level = (t->depth ? f[-1].level : 0) + user;
    f->opaque = deepest && f->level > deepest;
    t->depth++;
    f->site = site; f->child = f->overhead = 0; f->path = -1; f->children = 0; f->returned = NULL;
    f->user = user && !f->opaque;
    f->serial = ++t->serials;
    f->start = 0;
    if (traced_memory) memory_enter(t, f);
    if (timed || f->opaque) f->start = now();
    return f->serial;
}

/* Whether what happens now is recorded: not in the recorder itself, and not below the deepest level. */
static inline int is_seen(const Thread *t) {
    return recording && !t->busy && !(t->depth && t->stack[t->depth - 1].opaque);
}

static long ask_path(long parent, PyObject *site) {
    if (api) return api->path(api->self, parent, site);
    PyObject *number = PyObject_CallMethod(recorder, "path", "lO", parent, site);
    long path = number ? PyLong_AsLong(number) : -1;
    Py_XDECREF(number);
    return path;
}

static long path_of(Thread *t, int i) {
    if (i < 0) return -1;
    if (t->stack[i].path < 0) {
        long parent = path_of(t, i - 1);
        if (i > 0 && parent < 0) return -1;
        long path = ask_path(parent, (PyObject *)t->stack[i].site);
        if (path < 0) { recorder_failed(); return -1; }
        t->stack[i].path = path;
    }
    return t->stack[i].path;
}

/* The operation in frame `mine` moved data: so do the calls around it, which begin to be timed if they were not. */
static void mark(Thread *t, int mine) {
    Frame *stack = t->stack;
    stack[mine].site->quiet = 0;
    for (int i = mine - 1; i >= 0 && !stack[i].children; i--) {
        stack[i].children = 1;
        stack[i].site->quiet = 0;
        if (!stack[i].start) stack[i].start = stack[i + 1].start;
    }
}

static int moved_data(Frame *f, PyObject *function, PyObject *const *args, Py_ssize_t n, PyObject *result) {
    if (f->children || f->returned) return 1;
    if (result && !is_scalar(result) && Py_TYPE(result) != &PyFloat_Type && Py_TYPE(result) != &PyBytes_Type) return 1;
    for (Py_ssize_t i = 0; i < n; i++)
        if (!is_scalar(args[i])) return 1;
    if (function && PyCFunction_Check(function)) {
        PyObject *self = PyCFunction_GET_SELF(function);
        if (self && !is_scalar(self)) return 1;
    } else if (function && function != Py_None && !PyFunction_Check(function) && !PyType_Check(function)) return 1;
    return 0;
}

static PyObject *keywords_of(PyObject *const *values, PyObject *names) {
    PyObject *d = PyDict_New();
    if (d && names)
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); i++)
            if (PyDict_SetItem(d, PyTuple_GET_ITEM(names, i), values[i]) < 0) { Py_DECREF(d); return NULL; }
    return d;
}

/* Tell the recorder about a finished operation; result is NULL if it raised.  Called with no exception set; never leaves one.
 * Whether it moved data. */
static int tell(long path, Frame *f, PyObject *function, PyObject *const *args, Py_ssize_t n, PyObject *names,
                 PyObject *result, long long total) {
    PyObject *site = (PyObject *)f->site;
    if (api) {
        int done = f->user ? api->region(api->self, path, site, function, total, total - f->child)
                           : api->operation(api->self, path, site, f->site->kind, function, args, n, names, result, total,
                                            total - f->child, f->returned);
        if (done < 0) recorder_failed();
        if (done || f->user) return 1;
        f->site->calls++; f->site->nanoseconds += total;
        return 0;
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
    return done != Py_False;
}

/* What was recorded is kept now and then, so that a process that is killed loses little. */
static void keep(Thread *t) {
    keep_at = LLONG_MAX;
    enter(t);
    PyObject *next = PyObject_CallNoArgs(keeper);
    long long wait = next ? PyLong_AsLongLong(next) : -1;
    Py_XDECREF(next);
    if (wait > 0) keep_at = now() + wait;
    if (PyErr_Occurred()) recorder_failed();
    leave(t);
}

/* Looking through containers costs more than most calls that are given one.  Where that found nothing often, it is done now
 * and then, and whenever a value is of another class than the last time. */
#define DULL 256
#define SELDOM 16
static inline uintptr_t also_type(uintptr_t types, PyObject *value) {
    return (types ^ (uintptr_t)(value ? Py_TYPE(value) : NULL)) * (uintptr_t)0x9e3779b97f4a7c15ULL;
}

static int is_dull(const Frame *f, PyObject *function, PyObject *const *args, Py_ssize_t n, PyObject *result) {
    Site *s = f->site;
    if (!s->quiet) return 0;
    uintptr_t types = also_type((uintptr_t)(PyCFunction_Check(function) ? (void *)((PyCFunctionObject *)function)->m_ml : (void *)Py_TYPE(function)), result);
    if (PyCFunction_Check(function)) types = also_type(types, PyCFunction_GET_SELF(function));
    else if (PyType_Check(function) || PyFunction_Check(function)) types ^= (uintptr_t)function;
    for (Py_ssize_t i = 0; i < n; i++) types = also_type(types, args[i]);
    int same = types == s->types;
    s->types = types;
    return same && s->quiet >= DULL && s->calls % SELDOM && !f->children && !f->returned;
}

static int record_frame(Thread *t, int mine, PyObject *function, PyObject *const *args, Py_ssize_t n, PyObject *names,
                        PyObject *result, long long total) {
    Frame f = t->stack[mine];
    Py_ssize_t every = n + (names ? PyTuple_GET_SIZE(names) : 0);
    int told = 0;
    if (!f.user && !traced_memory && is_dull(&f, function, args, every, result)) {
        f.site->calls++; f.site->nanoseconds += total;
        return 0;
    }
    enter(t);
    long long peak = traced_memory ? memory_leave(t, mine) : 0;
    if (f.user ? (f.children > 0) : moved_data(&f, function, args, every, result)) {
        long path = path_of(t, mine);
        if (api && traced_memory) api->peak(api->self, peak);
        if (path >= 0 && tell(path, &f, function, args, n, names, result, total)) mark(t, mine);
        else f.site->quiet += f.site->quiet < DULL;
        told = 1;
    } else { f.site->calls++; f.site->nanoseconds += total; f.site->quiet += f.site->quiet < DULL; }
    leave(t);
    return told;
}

/* Close the frame that `push` opened at `mine` and record what happened in it (result NULL: it raised; no function: do
 * not).  A region that raised is not told: what ran in it was. */
static void finish(Thread *t, int mine, long long serial, PyObject *function, PyObject *const *args, Py_ssize_t n,
                   PyObject *names, PyObject *result) {
    if (mine >= t->depth || t->stack[mine].serial != serial) return;
    if (!t->stack[mine].start) { /* not timed, so nothing was told in it */
        t->depth = mine;
        t->stack[mine].site->calls++;
        return;
    }
    long long end = now(), total = end - t->stack[mine].start - t->stack[mine].overhead;
    int told = 0;
    t->depth = mine + 1;
    if (function && (result || !t->stack[mine].user) && recording && !t->busy)
        told = record_frame(t, mine, function, args, n, names, result, total);
    if (told && end >= keep_at) keep(t);
    t->depth = mine;
    Frame *f = &t->stack[mine];
    PyObject *returned = f->returned;
    long long cost = told ? now() - end : 0, overhead = f->overhead + cost;
    spent += cost;
    told_calls += told;
    if (told && cost < UNUSUAL) { told_usual++; spent_usual += cost; }
    if (mine > 0) { f[-1].child += total; f[-1].overhead += overhead; }
    else if (t->room > FEW) shrink(t);
    Py_XDECREF(returned);
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
static inline int has_stack(Thread *t) {
    char here;
    if (!t->stack_end) t->stack_end = end_of_stack();
    if ((uintptr_t)&here > (uintptr_t)t->stack_end) return 1;
    PyErr_SetString(PyExc_RecursionError, "maximum recursion depth exceeded: the C stack is used up");
    return 0;
}

/* Python 3.12 and 3.13 count the levels of C, two for each Python function that C calls, and end at 1500 (3.12) or 10000:
 * a method that calls itself 900 times runs without us and would not with us.  What we add is given back for the time of
 * the call; where has_stack watches the real stack, the count is not needed against an overflow. */
#if defined(__linux__) && PY_VERSION_HEX >= 0x030C0000 && PY_VERSION_HEX < 0x030E0000
#define GIVE_BACK(levels) (PyThreadState_Get()->c_recursion_remaining += (levels))
#else
#define GIVE_BACK(levels) ((void)0)
#endif

/* A profiler of the program's own hears of calls of C functions as if there were no site: the interpreter tells it of
 * those that it makes itself, and this one is made by us. */
#if PY_VERSION_HEX < 0x030E0000
static int tell_profiler(PyThreadState *state, int what, PyObject *function) {
    PyFrameObject *frame = PyEval_GetFrame();
    if (!frame || !state->c_profilefunc) return 0;
    PyThreadState_EnterTracing(state);
    int done = state->c_profilefunc(state->c_profileobj, frame, what, function);
    PyThreadState_LeaveTracing(state);
    return done;
}

static PyObject *profiled_call(PyThreadState *state, PyObject *function, PyObject *const *args, size_t nf, PyObject *names) {
    if (tell_profiler(state, PyTrace_C_CALL, function) < 0) return NULL;
    PyObject *result = PyObject_Vectorcall(function, args, nf, names), *type, *value, *trace;
    if (!result) {
        PyErr_Fetch(&type, &value, &trace);
        if (tell_profiler(state, PyTrace_C_EXCEPTION, function) < 0) { Py_XDECREF(type); Py_XDECREF(value); Py_XDECREF(trace); }
        else PyErr_Restore(type, value, trace);
    } else if (tell_profiler(state, PyTrace_C_RETURN, function) < 0) Py_CLEAR(result);
    return result;
}
#endif

static inline PyObject *call(Thread *t, PyObject *function, PyObject *const *args, size_t nf, PyObject *names) {
    if (!has_stack(t)) return NULL;
#if PY_VERSION_HEX < 0x030E0000
    PyThreadState *state = PyThreadState_Get();
    if (state->c_profilefunc && !state->tracing && PyCFunction_Check(function)) return profiled_call(state, function, args, nf, names);
#endif
    GIVE_BACK(2);
    PyObject *result = PyObject_Vectorcall(function, args, nf, names);
    GIVE_BACK(-2);
    return result;
}

/* `flag` is PY_VECTORCALL_ARGUMENTS_OFFSET if our caller lets us change what stands before its arguments. */
static PyObject *forward(Site *s, PyObject *const *args, Py_ssize_t n, size_t flag, PyObject *names) {
    switch (s->kind) {
    case CALL: return call(thread(), args[0], args + 1, (size_t)(n - 1) | flag, names);
    case BINARY: case INPLACE: return s->two(args[0], args[1]);
    case UNARY: return s->one(args[0]);
    case GETITEM: return PyObject_GetItem(args[0], args[1]);
    case SETITEM: /* value, object, index: the order in which an assignment evaluates them */
        if (PyObject_SetItem(args[1], args[2], args[0]) < 0) return NULL;
        Py_RETURN_NONE;
    default: Py_INCREF(args[0]); return args[0];
    }
}

static PyObject *note_return(Thread *t, PyObject *value) { /* takes the reference to value, and gives one */
    Frame *f = t->depth ? &t->stack[t->depth - 1] : NULL;
    if (!f || f->user || is_scalar(value) || !is_seen(t)) return value;
    enter(t);
    PyObject *noted = api ? api->note(api->self, value, f->returned)
                          : PyObject_CallMethod(recorder, "note", "OO", value, f->returned ? f->returned : Py_None);
    if (!noted && PyErr_Occurred()) recorder_failed();
    if (noted == Py_None) Py_CLEAR(noted);
    if (noted) Py_XSETREF(t->stack[t->depth - 1].returned, noted);
    leave(t);
    return unless_interrupted(t, value);
}

static int is_plain_iterable(PyObject *o) {
    return PyList_CheckExact(o) || PyTuple_CheckExact(o) || PyDict_CheckExact(o) || PyUnicode_CheckExact(o) ||
           PyRange_Check(o) || PyAnySet_CheckExact(o) || PyGen_CheckExact(o) || Py_TYPE(o) == &PyMap_Type ||
           Py_TYPE(o) == &PyFilter_Type || PyDictViewSet_Check(o) || Py_TYPE(o) == &PyDictValues_Type;
}

static int is_plain_iterator(PyObject *o) {
    PyTypeObject *t = Py_TYPE(o);
    return is_plain_iterable(o) || t == &PyListIter_Type || t == &PyTupleIter_Type || t == &PyRangeIter_Type ||
           t == &PyLongRangeIter_Type || t == &PyDictIterKey_Type || t == &PyDictIterValue_Type ||
           t == &PyDictIterItem_Type || t == &PySetIter_Type || t == &PyUnicodeIter_Type || t == &PyListRevIter_Type ||
           t == &PyReversed_Type || t == &PyBytesIter_Type || !t->tp_iternext;
}

/* What works inside `enumerate(...)` and `zip(...)`: a borrowed reference to the first iterator that is not a plain one.
 * They do not show what they go through, except to the garbage collector. */
static int find_worker(PyObject *inside, void *found) {
    PyObject **worker = found;
    if (*worker || !inside) return 0;
    if (PyTuple_CheckExact(inside)) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(inside); i++) find_worker(PyTuple_GET_ITEM(inside, i), found);
    } else if (Py_TYPE(inside) == &PyZip_Type || Py_TYPE(inside) == &PyEnum_Type) {
        Py_TYPE(inside)->tp_traverse(inside, find_worker, found);
    } else if (!is_plain_iterator(inside)) *worker = inside;
    return 0;
}

/* `told` is what the recorder is told of: `inner` itself, or what works inside it. */
typedef struct { PyObject_HEAD Site *site; PyObject *inner, *told; } SiteIterator;

static PyObject *wrap_iterable(Site *s, PyObject *iterable) {
    PyObject *inner, *told;
    if (is_plain_iterable(iterable)) { Py_INCREF(iterable); return iterable; }
    if (Py_TYPE(iterable) == &PyZip_Type || Py_TYPE(iterable) == &PyEnum_Type) {
        told = NULL;
        find_worker(iterable, &told);
        Py_INCREF(iterable);
        inner = iterable;
    } else {
        if (!(inner = PyObject_GetIter(iterable))) return NULL;
        told = is_plain_iterator(inner) && Py_TYPE(inner) != &PyReversed_Type ? NULL : inner; /* that may be of an array */
    }
    if (!told) return inner;
    SiteIterator *it = PyObject_GC_New(SiteIterator, &SiteIteratorType);
    if (!it) { Py_DECREF(inner); return NULL; }
    Py_INCREF(s); it->site = s; it->inner = inner;
    Py_INCREF(told); it->told = told;
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

static int carries(Thread *t, PyObject *number) {
    if (!PyFloat_CheckExact(number) || !(api || asks)) return 0;
    if (api) return api->carries(api->self, number);
    enter(t);
    PyObject *answer = PyObject_CallMethod(recorder, "carries", "O", number);
    if (!answer) recorder_failed();
    leave(t);
    Py_XDECREF(answer);
    return answer == Py_True;
}

static int is_plain(Thread *t, int kind, PyObject *const *args, Py_ssize_t n) {
    return moves_nothing(kind, args) && !(kind <= INPLACE && (carries(t, args[0]) || (n > 1 && carries(t, args[1]))));
}

/* A loop may be given a variant while it is observed: one that gives another iterator looks ahead of plain values. */
static PyObject *taken_over(Site *s, PyObject *const *args) {
    if (!s->variant || s->variant == Py_None) return wrap_iterable(s, args[0]);
    PyObject *given = PyObject_Vectorcall(s->variant, args, 1, NULL);
    if (given != args[0]) return given;
    Py_DECREF(given);
    return wrap_iterable(s, args[0]);
}

static PyObject *record(Thread *t, Site *s, PyObject *const *args, Py_ssize_t n, size_t flag, PyObject *names) {
    if (s->kind == RETURN) { Py_INCREF(args[0]); return note_return(t, args[0]); }
    if (s->kind == ITERATE) return taken_over(s, args);
    if (is_plain(t, s->kind, args, n)) { s->calls++; return forward(s, args, n, flag, names); }
    int call = s->kind == CALL, user = call ? is_user_callable(t, s, args[0]) : 0, mine = t->depth;
    if (t->interrupt[0]) return unless_interrupted(t, NULL);
    long long serial = push(t, s, user);
    PyObject *result = forward(s, args, n, flag, names);
    if (!serial) return result;
    PyObject *type = NULL, *value = NULL, *trace = NULL;
    if (!result) PyErr_Fetch(&type, &value, &trace);
    finish(t, mine, serial, call ? args[0] : s->function, args + call, n - call, names, result);
    if (!result) PyErr_Restore(type, value, trace);
    else if (s->returns) result = note_return(t, result);
    return unless_interrupted(t, result);
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

/* A change that is turned off begins no further call.  One that is under way ends as it began: what its first site gave
 * on is a placeholder, and the sites that follow see it among their operands. */
static PyObject *placeholder_types = NULL; /* tuple */

static int has_placeholder(PyObject *const *args, Py_ssize_t n) {
    Py_ssize_t kinds = placeholder_types ? PyTuple_GET_SIZE(placeholder_types) : 0;
    for (Py_ssize_t i = 0; i < n; i++)
        for (Py_ssize_t k = 0; k < kinds; k++)
            if ((PyObject *)Py_TYPE(args[i]) == PyTuple_GET_ITEM(placeholder_types, k)) return 1;
    return 0;
}

static inline int varies(Site *s, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    if (s->mode != VARIANT || !s->variant || s->variant == Py_None) return 0;
    if (!s->flag || s->flag->on) return 1;
    return s->follows && has_placeholder(args, n + (names ? PyTuple_GET_SIZE(names) : 0));
}

static PyObject *placeholders(PyObject *m, PyObject *types) {
    if (!PyTuple_Check(types)) return PyErr_Format(PyExc_TypeError, "a tuple of types is expected");
    Py_INCREF(types); Py_XSETREF(placeholder_types, types);
    Py_RETURN_NONE;
}

static const Py_ssize_t LEAST[] = {1, 2, 1, 2, 2, 3, 1, 1}; /* arguments, by kind */

static PyObject *site_call(PyObject *self, PyObject *const *args, size_t nf, PyObject *names);

/* ---- what is held between reading and writing a place ---------------------------------------------------------------- */

/* `x[i] += v` evaluates x and i once.  Its three sites hand a Held from one to the next: get(x, i, False) reads, the
 * operator changes what was read, set(held) writes.  With True in place of False, i is the name of an attribute.
 * `x[i], y = ...` becomes an assignment to set(x, i).value. */
typedef struct { PyObject_HEAD Site *set; PyObject *base, *index, *value; int attribute; } Held;
static PyTypeObject HeldType;

static PyObject *hold(Site *set, PyObject *base, PyObject *index, PyObject *value, int attribute) { /* takes value */
    Held *h = PyObject_New(Held, &HeldType);
    if (!h) { Py_XDECREF(value); return NULL; }
    Py_XINCREF(set); h->set = set;
    Py_INCREF(base); h->base = base;
    Py_INCREF(index); h->index = index;
    h->value = value; h->attribute = attribute;
    return (PyObject *)h;
}

static PyObject *held_get(Site *s, PyObject *const *args) {
    int attribute = args[2] == Py_True;
    PyObject *value = attribute ? PyObject_GetAttr(args[0], args[1]) : site_call((PyObject *)s, args, 2, NULL);
    return value ? hold(NULL, args[0], args[1], value, attribute) : NULL;
}

static PyObject *held_change(Site *s, Held *h, PyObject *by) {
    PyObject *args[] = {h->value, by}, *result = site_call((PyObject *)s, args, 2, NULL);
    if (!result) return NULL;
    Py_SETREF(h->value, result);
    Py_INCREF(h);
    return (PyObject *)h;
}

static PyObject *held_set(Site *s, Held *h) {
    PyObject *args[] = {h->value, h->base, h->index};
    if (!h->attribute) return site_call((PyObject *)s, args, 3, NULL);
    if (PyObject_SetAttr(h->base, h->index, h->value) < 0) return NULL;
    Py_RETURN_NONE;
}

static int held_store(Held *h, PyObject *value, void *unused) {
    if (!value || !h->set) { PyErr_SetString(PyExc_TypeError, "only an assignment is held here"); return -1; }
    PyObject *args[] = {value, h->base, h->index}, *done = site_call((PyObject *)h->set, args, 3, NULL);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

static void held_dealloc(Held *h) {
    Py_XDECREF(h->set); Py_XDECREF(h->base); Py_XDECREF(h->index); Py_XDECREF(h->value);
    PyObject_Free(h);
}
static PyGetSetDef held_getset[] = {{"value", NULL, (setter)held_store, "assigned: what the place is to hold", NULL}, {NULL, NULL, NULL, NULL, NULL}};
static PyTypeObject HeldType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "codedag.instrument._site.Held", .tp_basicsize = sizeof(Held),
    .tp_flags = Py_TPFLAGS_DEFAULT, .tp_dealloc = (destructor)held_dealloc, .tp_getset = held_getset};

/* Whether this call hands on something held, and what it gives. */
static int is_held(Site *s, PyObject *const *args, Py_ssize_t n, PyObject **result) {
    Held *h = n && Py_IS_TYPE(args[0], &HeldType) ? (Held *)args[0] : NULL;
    if (s->kind == GETITEM && n == 3) *result = held_get(s, args);
    else if (s->kind == INPLACE && h) *result = held_change(s, h, args[1]);
    else if (s->kind == SETITEM && h && n == 1) *result = held_set(s, h);
    else if (s->kind == SETITEM && n == 2) *result = hold(s, args[0], args[1], NULL, 0);
    else return 0;
    return 1;
}

static PyObject *site_call(PyObject *self, PyObject *const *args, size_t nf, PyObject *names) {
    Site *s = (Site *)self;
    Py_ssize_t n = PyVectorcall_NARGS(nf);
    PyObject *result;
    if (s->kind >= INPLACE && s->kind <= SETITEM && is_held(s, args, n, &result)) return result;
    if (n < LEAST[s->kind]) return PyErr_Format(PyExc_TypeError, "this site takes at least %zd arguments", LEAST[s->kind]);
    size_t flag = nf & PY_VECTORCALL_ARGUMENTS_OFFSET;
    if (s->turns && s->turns != Py_None) {
        PyObject *on = PyObject_GetAttrString(s->turns, "on");
        if (!on) return NULL;
        Py_DECREF(on);
    }
    if (varies(s, args, n, names)) return vary(s, args, n, names);
    if (s->mode == RECORD) {
        Thread *t = thread();
        if (is_seen(t) && !(s->outermost && t->depth && !t->stack[t->depth - 1].user)) return record(t, s, args, n, flag, names);
    }
    return forward(s, args, n, flag, names);
}

#define MANY 1024
static PyObject *tell_idle(Site *s, PyObject *function, PyObject *result) { /* takes the reference to result, and gives it back */
    Thread *t = thread();
    PyObject *type = NULL, *value = NULL, *trace = NULL;
    s->tell_at = 2 * s->calls;
    if (!idler || idler == Py_None || s->mode != RECORD || !is_seen(t)) return result;
    if (!result) PyErr_Fetch(&type, &value, &trace);
    long long begin = now();
    enter(t);
    PyObject *done = PyObject_CallFunctionObjArgs(idler, (PyObject *)s, function, NULL);
    if (!done) recorder_failed(); else Py_DECREF(done);
    leave(t);
    if (t->depth) t->stack[t->depth - 1].overhead += now() - begin;
    if (!result) PyErr_Restore(type, value, trace);
    return unless_interrupted(t, result);
}

static int is_plain_numbers(PyObject *const *args, Py_ssize_t n) { /* none of which came from data */
    if (n < 2 || !is_number(args[0]) || !is_number(args[1]) || !api || !recording) return 0;
    return !(PyFloat_CheckExact(args[0]) && api->carries(api->self, args[0])) &&
           !(PyFloat_CheckExact(args[1]) && api->carries(api->self, args[1]));
}

static PyObject *told_call(PyObject *self, PyObject *const *args, size_t nf, PyObject *names) {
    Site *s = (Site *)self;
    PyObject *result = site_call(self, args, nf, names);
    return s->quiet < QUIET || s->calls < s->tell_at ? result : tell_idle(s, Py_None, result);
}

/* The common cases, without asking what kind of site it is: numbers, and calls of the user's own functions. */
static PyObject *binary_call(PyObject *self, PyObject *const *args, size_t nf, PyObject *names) {
    Site *s = (Site *)self;
    PyObject *result;
    if (PyVectorcall_NARGS(nf) >= 2 && PyLong_CheckExact(args[0]) && PyLong_CheckExact(args[1])) result = s->ints(args[0], args[1]);
    else if (is_plain_numbers(args, PyVectorcall_NARGS(nf))) result = s->two(args[0], args[1]);
    else return told_call(self, args, nf, names);
    return ++s->calls < s->tell_at ? result : tell_idle(s, Py_None, result);
}

/* What is in a list or dictionary was put there: taking it out moves nothing. */
static PyObject *getitem_call(PyObject *self, PyObject *const *args, size_t nf, PyObject *names) {
    Site *s = (Site *)self;
    if (PyVectorcall_NARGS(nf) != 2 || !moves_nothing(GETITEM, args)) return told_call(self, args, nf, names);
    PyObject *result = PyObject_GetItem(args[0], args[1]);
    return ++s->calls < s->tell_at ? result : tell_idle(s, Py_None, result);
}

static PyObject *setitem_call(PyObject *self, PyObject *const *args, size_t nf, PyObject *names) {
    Site *s = (Site *)self;
    if (PyVectorcall_NARGS(nf) != 3 || !moves_nothing(SETITEM, args)) return told_call(self, args, nf, names);
    PyObject *result = PyObject_SetItem(args[1], args[2], args[0]) < 0 ? NULL : Py_None;
    Py_XINCREF(result);
    return ++s->calls < s->tell_at ? result : tell_idle(s, Py_None, result);
}

/* A call of the user's own function that has moved no data so far: a frame for the chain of sites, and no clock. */
static PyObject *quiet_call(Thread *t, Site *s, PyObject *const *args, size_t nf, PyObject *names) {
    Frame *f = &t->stack[t->depth];
    long long serial = ++t->serials;
    int mine = t->depth++;
    f->site = s; f->start = f->child = f->overhead = 0; f->path = -1; f->user = 1; f->children = f->opaque = 0;
    f->level = mine ? f[-1].level + 1 : 1;
    f->serial = serial; f->returned = NULL;
    PyObject *result = call(t, args[0], args + 1, nf - 1, names);
    if (mine < t->depth && t->stack[mine].serial == serial && !t->stack[mine].start) { /* nothing was told in it */
        t->depth = mine;
        s->calls++;
    } else {
        PyObject *type = NULL, *value = NULL, *trace = NULL;
        if (!result) PyErr_Fetch(&type, &value, &trace);
        finish(t, mine, serial, args[0], args + 1, PyVectorcall_NARGS(nf) - 1, names, result);
        if (!result) PyErr_Restore(type, value, trace);
    }
    return unless_interrupted(t, result && s->returns ? note_return(t, result) : result);
}

static PyObject *call_call(PyObject *self, PyObject *const *args, size_t nf, PyObject *names) {
    Site *s = (Site *)self;
    Thread *t = thread();
    PyObject *result;
    if (s->quiet >= QUIET && (s->calls & (QUIET - 1)) && recording && !t->busy && PyVectorcall_NARGS(nf) > 0 &&
        PyFunction_Check(args[0]) && is_user_file(s, ((PyCodeObject *)PyFunction_GET_CODE(args[0]))->co_filename) &&
        t->depth && t->depth < t->room && t->stack[t->depth - 1].user && !deepest && !traced_memory && !t->interrupt[0])
        result = quiet_call(t, s, args, nf, names);
    else result = site_call(self, args, nf, names);
    return s->quiet < QUIET || s->calls < s->tell_at ? result : tell_idle(s, args[0], result);
}

static PyObject *return_call(PyObject *self, PyObject *const *args, size_t nf, PyObject *names) {
    if (PyVectorcall_NARGS(nf) < 1) return site_call(self, args, nf, names);
    Thread *t = thread();
    Py_INCREF(args[0]);
    return note_return(t, args[0]);
}

static void choose_call(Site *s) {
    s->vectorcall = s->mode != RECORD                           ? site_call
                    : s->kind == BINARY || s->kind == INPLACE   ? binary_call
                    : s->kind == RETURN                         ? return_call
                    : s->kind == CALL                           ? call_call
                    : s->kind == GETITEM                        ? getitem_call
                    : s->kind == SETITEM                        ? setitem_call
                                                                : site_call;
}

/* ---- the iterator of a `for` over something that works (a DataLoader): each __next__ is an operation ---------- */

static PyObject *iterator_next(SiteIterator *it) {
    iternextfunc next = Py_TYPE(it->inner)->tp_iternext;
    Thread *t = thread();
    if (it->site->mode != RECORD || !is_seen(t)) return next(it->inner);
    int mine = t->depth;
    long long serial = push(t, it->site, 0);
    PyObject *result = next(it->inner), *type = NULL, *value = NULL, *trace = NULL;
    if (!serial) return result;
    if (!result) PyErr_Fetch(&type, &value, &trace);
    finish(t, mine, serial, result ? it->told : NULL, NULL, 0, NULL, result); /* the end of the loop is no operation */
    if (!result) PyErr_Restore(type, value, trace);
    return unless_interrupted(t, result);
}
static int iterator_traverse(SiteIterator *it, visitproc visit, void *arg) { Py_VISIT(it->site); Py_VISIT(it->inner); Py_VISIT(it->told); return 0; }
static int iterator_clear(SiteIterator *it) { Py_CLEAR(it->site); Py_CLEAR(it->inner); Py_CLEAR(it->told); return 0; }
static void iterator_dealloc(SiteIterator *it) { PyObject_GC_UnTrack(it); iterator_clear(it); PyObject_GC_Del(it); }
static PyTypeObject SiteIteratorType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "codedag.instrument._site.SiteIterator", .tp_basicsize = sizeof(SiteIterator),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, .tp_dealloc = (destructor)iterator_dealloc,
    .tp_traverse = (traverseproc)iterator_traverse, .tp_clear = (inquiry)iterator_clear,
    .tp_iter = PyObject_SelfIter, .tp_iternext = (iternextfunc)iterator_next};

/* ---- the type ------------------------------------------------------------------------------------------------ */

static binaryfunc for_ints(binaryfunc two) {
    const PyNumberMethods *of = PyLong_Type.tp_as_number;
    if (two == PyNumber_Add || two == PyNumber_InPlaceAdd) return of->nb_add;
    if (two == PyNumber_Subtract || two == PyNumber_InPlaceSubtract) return of->nb_subtract;
    if (two == PyNumber_Multiply || two == PyNumber_InPlaceMultiply) return of->nb_multiply;
    if (two == PyNumber_FloorDivide || two == PyNumber_InPlaceFloorDivide) return of->nb_floor_divide;
    if (two == PyNumber_Remainder || two == PyNumber_InPlaceRemainder) return of->nb_remainder;
    if (two == PyNumber_And || two == PyNumber_InPlaceAnd) return of->nb_and;
    if (two == PyNumber_Or || two == PyNumber_InPlaceOr) return of->nb_or;
    return two;
}

static int find_operator(Site *s, PyObject *function) {
    static const Operation *known = OPERATIONS; /* the last one found: a file has many of few kinds */
    PyObject *name = PyObject_GetAttrString(function, "__name__");
    if (!name) return -1;
    if (!known->name || PyUnicode_CompareWithASCIIString(name, known->name) != 0)
        for (known = OPERATIONS; known->name && PyUnicode_CompareWithASCIIString(name, known->name) != 0;) known++;
    s->two = known->two; s->one = known->one; s->ints = for_ints(known->two);
    Py_DECREF(name);
    if (s->kind == UNARY ? s->one != NULL : s->two != NULL) return 0;
    PyErr_Format(PyExc_ValueError, "not an operator: %S", function);
    return -1;
}

static int site_set(Site *s, long kind, PyObject *info, PyObject *function, int returns) {
    if (kind < CALL || kind > ITERATE) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "unknown kind of site");
        return -1;
    }
    s->kind = (int)kind; s->returns = returns;
    if ((kind == BINARY || kind == UNARY || kind == INPLACE) && find_operator(s, function) < 0) return -1;
    choose_call(s);
    Py_INCREF(info); Py_XSETREF(s->info, info);
    Py_INCREF(function); Py_XSETREF(s->function, function);
    return 0;
}

static int site_init(Site *s, PyObject *args, PyObject *kw) {
    static char *names[] = {"kind", "info", "function", "returns", NULL};
    PyObject *info, *function = Py_None;
    int kind, returns = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kw, "iO|Op", names, &kind, &info, &function, &returns)) return -1;
    return site_set(s, kind, info, function, returns);
}

static PyObject *site_new(PyTypeObject *type, PyObject *args, PyObject *kw) {
    Site *s = (Site *)type->tp_alloc(type, 0);
    (void)args; (void)kw;
    if (s) { s->vectorcall = site_call; s->tell_at = MANY; }
    return (PyObject *)s;
}

/* Site(kind, info, function, returns), as tables make tens of thousands. */
static PyObject *site_make(PyObject *type, PyObject *const *args, size_t nf, PyObject *names) {
    Site *s = NULL;
    if (names || PyVectorcall_NARGS(nf) != 4) { /* the usual way */
        PyObject *tuple = PyTuple_New(PyVectorcall_NARGS(nf)), *kw = keywords_of(args + PyVectorcall_NARGS(nf), names);
        for (Py_ssize_t i = 0; tuple && i < PyTuple_GET_SIZE(tuple); i++) { Py_INCREF(args[i]); PyTuple_SET_ITEM(tuple, i, args[i]); }
        if (tuple && kw && (s = (Site *)site_new((PyTypeObject *)type, NULL, NULL)) && site_init(s, tuple, kw) < 0) Py_CLEAR(s);
        Py_XDECREF(tuple); Py_XDECREF(kw);
        return (PyObject *)s;
    }
    int returns = PyObject_IsTrue(args[3]);
    long kind = returns < 0 ? -1 : PyLong_AsLong(args[0]);
    if (!PyErr_Occurred()) s = (Site *)site_new((PyTypeObject *)type, NULL, NULL);
    if (s && site_set(s, kind, args[1], args[2], returns) < 0) Py_CLEAR(s);
    return (PyObject *)s;
}
/* Not known to the garbage collector: a package has tens of thousands of sites, and whoever gives one a variant or a watch
 * takes it away again. */
static void site_dealloc(Site *s) {
    Py_XDECREF(s->info); Py_XDECREF(s->function); Py_XDECREF(s->variant); Py_XDECREF(s->watch); Py_XDECREF(s->file);
    Py_XDECREF(s->flag); Py_XDECREF(s->turns);
    Py_TYPE(s)->tp_free((PyObject *)s);
}
static PyMemberDef site_members[] = {
    {"kind", T_INT, offsetof(Site, kind), READONLY, "CALL .. ITERATE"},
    {"info", T_OBJECT, offsetof(Site, info), READONLY, "the place in the source"},
    {"function", T_OBJECT, offsetof(Site, function), READONLY, "the operator function this site stands for"},
    {"variant", T_OBJECT, offsetof(Site, variant), 0, "what runs instead in mode VARIANT"},
    {"calls", T_LONGLONG, offsetof(Site, calls), 0, "recorded executions that moved no data"},
    {"nanoseconds", T_LONGLONG, offsetof(Site, nanoseconds), 0, "their time"},
    {"watch", T_OBJECT, offsetof(Site, watch), 0, "told of calls of a library's method: watch(arguments, result, exception)"},
    {"always", T_INT, offsetof(Site, always), 0, "whether the watch is told also while nothing is recorded"},
    {"turns", T_OBJECT, offsetof(Site, turns), 0, "a counting switch that counts the calls while no operation is recorded here"},
    {"follows", T_INT, offsetof(Site, follows), 0, "whether a placeholder among the operands overrules a flag that is off"},
    {"regions", T_INT, offsetof(Site, regions), READONLY, "whether user code was called here"},
    {"outermost", T_INT, offsetof(Site, outermost), 0, "recorded only where no other library call is under way"},
    {"returns", T_INT, offsetof(Site, returns), 0, "its result is what the function returns"},
    {NULL, 0, 0, 0, NULL}};
static PyObject *get_mode(Site *s, void *unused) { return PyLong_FromLong(s->mode); }
static int set_mode(Site *s, PyObject *value, void *unused) {
    long mode = value ? PyLong_AsLong(value) : -1;
    if (mode < PASS || mode > VARIANT) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "unknown mode of a site");
        return -1;
    }
    if (mode == RECORD) s->tell_at = s->calls + MANY; /* begins anew */
    s->mode = (int)mode;
    choose_call(s);
    return 0;
}
static PyTypeObject FlagType;
static PyObject *get_flag(Site *s, void *unused) {
    PyObject *flag = s->flag ? (PyObject *)s->flag : Py_None;
    Py_INCREF(flag);
    return flag;
}
static int set_flag(Site *s, PyObject *value, void *unused) {
    if (value && value != Py_None && !Py_IS_TYPE(value, &FlagType)) {
        PyErr_SetString(PyExc_TypeError, "a Flag or None is expected");
        return -1;
    }
    if (value == Py_None) value = NULL;
    Py_XINCREF(value);
    Py_XSETREF(s->flag, (Flag *)value);
    return 0;
}
static PyGetSetDef site_getset[] = {
    {"mode", (getter)get_mode, (setter)set_mode, "PASS, RECORD or VARIANT", NULL},
    {"flag", (getter)get_flag, (setter)set_flag, "while this flag is off, the variant does not run; None: it always does", NULL},
    {NULL, NULL, NULL, NULL, NULL}};
static PyObject *flag_new(PyTypeObject *type, PyObject *args, PyObject *kw) {
    int on = 1;
    static char *names[] = {"on", NULL};
    if (!PyArg_ParseTupleAndKeywords(args, kw, "|p", names, &on)) return NULL;
    Flag *f = (Flag *)type->tp_alloc(type, 0);
    if (f) f->on = (char)on;
    return (PyObject *)f;
}
static PyMemberDef flag_members[] = {{"on", T_BOOL, offsetof(Flag, on), 0, "whether the variants run"}, {NULL, 0, 0, 0, NULL}};
static PyTypeObject FlagType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "codedag.instrument._site.Flag", .tp_basicsize = sizeof(Flag),
    .tp_flags = Py_TPFLAGS_DEFAULT, .tp_new = flag_new, .tp_members = flag_members,
    .tp_doc = "Turns the variants of many sites on and off at once."};
static PyTypeObject SiteType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "codedag.instrument._site.Site", .tp_basicsize = sizeof(Site),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_doc = "A place in user code that can be passed through, recorded or replaced.",
    .tp_new = site_new, .tp_init = (initproc)site_init, .tp_dealloc = (destructor)site_dealloc,
    .tp_call = PyVectorcall_Call, .tp_vectorcall = site_make,
    .tp_vectorcall_offset = offsetof(Site, vectorcall), .tp_members = site_members, .tp_getset = site_getset};

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
static PyObject *bound_result(Spread *self, PyObject *args, PyObject *kw) {
    Site *s = self->site;
    if (s->mode == PASS) return has_stack(thread()) ? PyObject_Call(self->function, args, kw) : NULL;
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

/* Tells who watches a method that a call has ended; its failure is the recorder's, not the program's. */
static void tell_watch(Thread *t, PyObject *watch, PyObject *args, PyObject *result) {
    PyObject *type = NULL, *value = NULL, *trace = NULL;
    if (!result) PyErr_Fetch(&type, &value, &trace);
    enter(t);
    Py_INCREF(watch);
    PyObject *done = PyObject_CallFunctionObjArgs(watch, args, result ? result : Py_None, type ? type : Py_None, NULL);
    Py_DECREF(watch);
    if (!done) recorder_failed(); else Py_DECREF(done);
    leave(t);
    if (!result) PyErr_Restore(type, value, trace);
}

static PyObject *bound_call(Spread *self, PyObject *args, PyObject *kw) {
    PyObject *result = bound_result(self, args, kw), *watch = self->site->watch;
    Thread *t = thread();
    if (!watch || watch == Py_None || t->busy || !(recording || self->site->always)) return result;
    tell_watch(t, watch, args, result);
    return unless_interrupted(t, result);
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

/* Turns of the program, as a counting switch sees them. */
typedef struct { PyObject_HEAD long long turns, longest, last; } Counter;
static PyMemberDef counter_members[] = {
    {"turns", T_LONGLONG, offsetof(Counter, turns), 0, "turns so far"},
    {"longest", T_LONGLONG, offsetof(Counter, longest), 0, "nanoseconds of the longest turn since it was set to 0"},
    {"last", T_LONGLONG, offsetof(Counter, last), 0, "when the latest turn began; 0: the next one is not timed"},
    {NULL, 0, 0, 0, NULL}};
static PyTypeObject CounterType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "codedag.instrument._site.Counter", .tp_basicsize = sizeof(Counter),
    .tp_flags = Py_TPFLAGS_DEFAULT, .tp_new = PyType_GenericNew, .tp_members = counter_members,
    .tp_doc = "How many turns a loop has begun, and how long the longest of them took."};

/* A loop reads `switch.on` at its head to choose between its two bodies. */
typedef struct {
    PyObject_HEAD
    PyObject *on;           /* an object slot: the interpreter specialises reading it */
    Counter *counter;       /* of a counting switch: what it counts into, */
    PyObject *callback;     /* what it calls, */
    long long every, left;  /* after how many turns, */
    unsigned long owner;    /* and the thread whose turns count; 0: that of the first turn */
} Switch;
static PyTypeObject SwitchType, CountingSwitchType;

static PyObject *switch_new(PyTypeObject *type, PyObject *args, PyObject *kw) {
    Switch *s = (Switch *)type->tp_alloc(type, 0);
    (void)args; (void)kw;
    if (s) { Py_INCREF(Py_False); s->on = Py_False; }
    return (PyObject *)s;
}
static void switch_dealloc(Switch *s) {
    Py_XDECREF(s->on); Py_XDECREF(s->counter); Py_XDECREF(s->callback);
    Py_TYPE(s)->tp_free((PyObject *)s);
}

/* A switch that counts is of another class: reading any other one costs what it did. */
static PyObject *uncount(Switch *s, PyObject *unused) {
    Py_SET_TYPE(s, &SwitchType);
    s->owner = 0;
    Py_CLEAR(s->counter);
    Py_CLEAR(s->callback);
    Py_RETURN_NONE;
}
static PyObject *count_into(Switch *s, PyObject *args) {
    PyObject *counter, *callback;
    long long every;
    if (!PyArg_ParseTuple(args, "O!LO", &CounterType, &counter, &every, &callback)) return NULL;
    if (every < 1) return PyErr_Format(PyExc_ValueError, "a callback comes after at least one turn");
    Py_INCREF(counter); Py_XSETREF(s->counter, (Counter *)counter);
    Py_INCREF(callback); Py_XSETREF(s->callback, callback);
    s->every = s->left = every;
    s->owner = 0;
    Py_SET_TYPE(s, &CountingSwitchType);
    Py_RETURN_NONE;
}

/* Calls back; its answer is after how many turns it wants to be called again.  A failure of ours ends the counting. */
static int call_back(Switch *s) {
    Thread *t = thread();
    PyObject *callback = s->callback, *type, *value, *trace;
    if (t->busy || !callback) return 0;
    s->left = s->every;
    Py_INCREF(callback);
    enter(t);
    PyObject *answer = PyObject_CallNoArgs(callback);
    long long every = answer && PyLong_Check(answer) ? PyLong_AsLongLong(answer) : 0;
    leave(t);
    Py_DECREF(callback);
    if (every > 0) s->every = s->left = every;
    if (answer && !PyErr_Occurred()) { Py_DECREF(answer); return 0; }
    Py_XDECREF(answer);
    PyErr_Fetch(&type, &value, &trace);
    if (is_interrupt(type, value, trace)) { PyErr_Restore(type, value, trace); hide_our_frames(); return -1; }
    Py_XDECREF(type); Py_XDECREF(value); Py_XDECREF(trace);
    Py_XDECREF(uncount(s, NULL));
    return 0;
}

static PyObject *counted_on(Switch *s, void *unused) {
    Counter *c = s->counter;
    unsigned long here = PyThread_get_thread_ident();
    if (!s->owner) s->owner = here;
    if (c && s->owner == here) {
        long long time = now();
        if (c->last && time - c->last > c->longest) c->longest = time - c->last;
        c->last = time;
        c->turns++;
        if (--s->left <= 0 && call_back(s) < 0) return NULL;
    }
    Py_INCREF(s->on);
    return s->on;
}
static int set_counted_on(Switch *s, PyObject *value, void *unused) {
    if (!value) { PyErr_SetString(PyExc_AttributeError, "on"); return -1; }
    Py_INCREF(value); Py_XSETREF(s->on, value);
    return 0;
}
static PyMethodDef switch_methods[] = {
    {"count_into", (PyCFunction)count_into, METH_VARARGS,
     "count_into(counter, every, callback): counts turns of one thread; callback() after so many, then after what it returns."},
    {"uncount", (PyCFunction)uncount, METH_NOARGS, "uncount(): counts no more."},
    {NULL, NULL, 0, NULL}};
static PyMemberDef switch_members[] = {{"on", T_OBJECT_EX, offsetof(Switch, on), 0, "whether the loop runs the body with sites"}, {NULL, 0, 0, 0, NULL}};
static PyGetSetDef counting_getset[] = {
    {"on", (getter)counted_on, (setter)set_counted_on, "whether the loop runs the body with sites; reading it is a turn", NULL},
    {NULL, NULL, NULL, NULL, NULL}};
static PyTypeObject SwitchType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "codedag.instrument._site.Switch", .tp_basicsize = sizeof(Switch),
    .tp_flags = Py_TPFLAGS_DEFAULT, .tp_new = switch_new, .tp_dealloc = (destructor)switch_dealloc,
    .tp_members = switch_members, .tp_methods = switch_methods,
    .tp_doc = "Chooses the body of one loop: with sites (on) or plain."};
static PyTypeObject CountingSwitchType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "codedag.instrument._site.CountingSwitch", .tp_basicsize = sizeof(Switch),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, .tp_dealloc = (destructor)switch_dealloc,
    .tp_getset = counting_getset, .tp_methods = switch_methods,
    .tp_doc = "A switch that counts the turns of its loop."};

/* ---- the module ---------------------------------------------------------------------------------------------- */

/* A method of a library's class as a site, without a Python frame: it binds as a function does. */
static PyObject *method(PyObject *m, PyObject *args) {
    PyObject *site, *function;
    if (!PyArg_ParseTuple(args, "O!O", &SiteType, &site, &function)) return NULL;
    PyObject *both = (PyObject *)bound(&BoundSiteType, (Site *)site, function);
    PyObject *made = both ? PyInstanceMethod_New(both) : NULL;
    Py_XDECREF(both);
    return made;
}

/* amend(f): what user code returned to the library call that is running becomes f(what was noted so far, or None). */
static PyObject *amend(PyObject *m, PyObject *function) {
    Thread *t = thread();
    Frame *f = t->depth ? &t->stack[t->depth - 1] : NULL;
    if (!f || f->user || f->opaque || !recording) Py_RETURN_FALSE;
    int busy = t->busy;
    t->busy = 1;
    PyObject *noted = PyObject_CallOneArg(function, f->returned ? f->returned : Py_None);
    t->busy = busy;
    if (!noted) return NULL;
    Py_XSETREF(t->stack[t->depth - 1].returned, noted);
    Py_RETURN_TRUE;
}

static PyObject *get_path(PyObject *m, PyObject *unused) {
    Thread *t = thread();
    if (!recording || !t->depth) return PyLong_FromLong(-1);
    int busy = t->busy;
    t->busy = 1;
    long path = path_of(t, t->depth - 1);
    t->busy = busy;
    return PyLong_FromLong(path);
}

static PyObject *set_keeper(PyObject *m, PyObject *args) {
    PyObject *function;
    long long wait;
    if (!PyArg_ParseTuple(args, "OL", &function, &wait)) return NULL;
    Py_INCREF(function); Py_XSETREF(keeper, function);
    keep_at = function == Py_None ? LLONG_MAX : now() + wait;
    Py_RETURN_NONE;
}

static PyObject *set_idler(PyObject *m, PyObject *function) {
    Py_INCREF(function); Py_XSETREF(idler, function);
    Py_RETURN_NONE;
}

static PyObject *measure_memory(PyObject *m, PyObject *yes) {
    Py_CLEAR(traced_memory); Py_CLEAR(reset_peak);
    if (yes != Py_True) Py_RETURN_NONE;
    PyObject *module = PyImport_ImportModule("tracemalloc");
    traced_memory = module ? PyObject_GetAttrString(module, "get_traced_memory") : NULL;
    reset_peak = module ? PyObject_GetAttrString(module, "reset_peak") : NULL;
    Py_XDECREF(module);
    if (traced_memory && reset_peak) Py_RETURN_NONE;
    Py_CLEAR(traced_memory); Py_CLEAR(reset_peak);
    return NULL;
}

static PyObject *start(PyObject *m, PyObject *args) {
    PyObject *r, *files;
    int most = 0;
    if (!PyArg_ParseTuple(args, "OO!|i", &r, &PySet_Type, &files, &most)) return NULL;
    deepest = most;
    starts++;
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
static PyObject *get_usual(PyObject *m, PyObject *unused) {
    if (told_usual) return PyFloat_FromDouble((double)spent_usual / (double)told_usual);
    return PyFloat_FromDouble(told_calls ? (double)spent / (double)told_calls : 0.0);
}
static PyMethodDef methods[] = {
    {"start", start, METH_VARARGS, "start(recorder, user_files, max_depth=0): sites in mode RECORD tell this recorder."},
    {"stop", stop, METH_NOARGS, "stop(): nobody is told any more."},
    {"is_recording", is_recording, METH_NOARGS, "is_recording() -> bool"},
    {"spent", get_spent, METH_NOARGS, "spent() -> nanoseconds that recording itself took."},
    {"usual", get_usual, METH_NOARGS, "usual() -> nanoseconds that recording one operation takes that was seen before."},
    {"method", method, METH_VARARGS, "method(site, function) -> what a class can have instead of a method, with a site in it."},
    {"amend", amend, METH_O, "amend(f) -> bool: the library call that is running was given f(what it was given so far)."},
    {"path", get_path, METH_NOARGS, "path() -> the recorder's number of the chain of sites that is running, or -1."},
    {"keep_by", set_keeper, METH_VARARGS, "keep_by(f, nanoseconds): f() is called then, and again after what it returns."},
    {"idle_by", set_idler, METH_O, "idle_by(f): f(site, what was called there or None) is called where a site was executed many times without data."},
    {"measure_memory", measure_memory, METH_O, "measure_memory(yes): read tracemalloc around every call."},
    {"placeholders", placeholders, METH_O, "placeholders(types): values of these types stand for others on their way through a change."},
    {"hide", hide, METH_O, "hide(folder or code): leave such frames of a variant out of tracebacks."},
    {"failure", get_failure, METH_NOARGS, "failure() -> why recording ended by itself, or None."},
    {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "codedag.instrument._site", .m_doc = "Sites in C; see _twin.py.", .m_size = -1,
    .m_methods = methods};

PyMODINIT_FUNC PyInit__site(void) {
    if (!thread_key_made && pthread_key_create(&thread_key, thread_end)) return PyErr_NoMemory();
    thread_key_made = 1;
    PyObject *m = PyModule_Create(&definition);
    if (!m) return NULL;
    user_types = PyDict_New();
    if (!user_types || PyType_Ready(&SiteIteratorType) < 0 || PyType_Ready(&BoundSiteType) < 0 || PyType_Ready(&HeldType) < 0 ||
        PyModule_AddType(m, &SiteType) < 0 || PyModule_AddType(m, &SpreadType) < 0 || PyModule_AddType(m, &SwitchType) < 0 ||
        PyModule_AddType(m, &CountingSwitchType) < 0 || PyModule_AddType(m, &CounterType) < 0 || PyModule_AddType(m, &FlagType) < 0) {
        Py_DECREF(m);
        return NULL;
    }
    return m;
}
