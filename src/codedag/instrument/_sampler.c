/* Sampling profiler of the own process: a thread that reads the frames of all Python threads without the interpreter lock.
 *
 * A sample weighs as much CPU time as its thread used since the last one, so waiting is not work, and code that holds
 * the lock counts like code that gives it up.  autopilot/heat makes reports of it; its twin in Python is for systems
 * and interpreters that this file does not know.  At start it is compared with what the interpreter itself says
 * of the calling thread: a build against the headers of another version is refused, not believed.
 */
#define _GNU_SOURCE
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#if defined(__linux__) && PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030E0000 && !defined(Py_GIL_DISABLED) && \
    !defined(PYPY_VERSION)
#define IS_SUPPORTED 1
#include "sampler_thread.h"

#define OWN_CPU_SHARE_MAX 0.01 /* the thread sleeps longer rather than take more */
#define LINES_MAX 16
#define LEAST_TURNS 2

static Sampler *sampler; /* of this process; made at the first start, never freed: the thread may outlive the module */

static int make_lock(Sampler *s) {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    int error = pthread_mutex_init(&s->lock, NULL) || pthread_cond_init(&s->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return !error;
}

static Sampler *new_sampler(void) {
    Sampler *s = calloc(1, sizeof *s);
    if (s && (!make_lock(s) || !make_tables(&s->tables, seconds_now()))) { free(s); s = NULL; }
    if (!s) { PyErr_NoMemory(); return NULL; }
    s->pid = s->memory.pid = getpid();
    s->own_share_max = OWN_CPU_SHARE_MAX;
    s->activity = 1.0;
    s->random = mixed((uint64_t)(1e9 * s->tables.origin)) | 1;
    return s;
}

/* The sampler of this process.  A forked child leaves its parent's where it is: a thread may have been at work on it. */
static Sampler *own_sampler(void) {
    if (!sampler || sampler->pid != getpid()) {
        Sampler *s = new_sampler();
        if (s) sampler = s;
        return s;
    }
    return sampler;
}

/* Whether all that is read here without the lock agrees with what the interpreter says with it. */
static const char *mismatch(Sampler *s) {
    PyThreadState *state = PyThreadState_Get();
    uintptr_t head;
    ThreadView view;
    if (!copy_from(&s->memory, &head, s->interpreter + offsetof(PyInterpreterState, threads.head), sizeof head))
        return strerror(errno);
    if (head != (uintptr_t)PyInterpreterState_ThreadHead(PyThreadState_GetInterpreter(state))) return "other thread list";
    if (!view_thread(&s->memory, (uintptr_t)state, &view) || view.interpreter != s->interpreter) return "other thread state";
    if (view.tid != (pid_t)syscall(SYS_gettid)) return "other thread number";
    Thread self = {.state = (uintptr_t)state};
    int depth = read_stack(s, &self, view.top);
    PyFrameObject *frame = PyThreadState_GetFrame(state);
    if (!frame) return depth == 0 ? NULL : "other frames";
    PyCodeObject *code = PyFrame_GetCode(frame);
    int is_same = depth > 0 && s->stack[depth - 1].code == (uintptr_t)code && s->stack[depth - 1].unit * UNIT_BYTES == PyFrame_GetLasti(frame);
    Py_DECREF(code);
    Py_DECREF(frame);
    return is_same ? NULL : "other frames";
}

static PyObject *start(PyObject *module, PyObject *args) {
    double hz, own_share_max = OWN_CPU_SHARE_MAX;
    (void)module;
    if (!PyArg_ParseTuple(args, "d|d", &hz, &own_share_max)) return NULL;
    if (!(hz > 0.0 && hz <= 10000.0)) return PyErr_Format(PyExc_ValueError, "a rate from 0 to 10000 looks a second");
    if (!(own_share_max > 0.0)) return PyErr_Format(PyExc_ValueError, "a share of a processor above 0");
    Sampler *s = own_sampler();
    if (!s) return NULL;
    if (s->is_running) Py_RETURN_NONE;
    s->own_share_max = own_share_max;
    s->interpreter = (uintptr_t)PyThreadState_GetInterpreter(PyThreadState_Get());
    const char *why = mismatch(s);
    if (why) return PyErr_Format(PyExc_OSError, "frames cannot be read without the interpreter lock: %s", why);
    int error = start_thread(s, hz);
    if (error) return PyErr_Format(PyExc_OSError, "the sampling thread did not start: %s", strerror(error));
    Py_RETURN_NONE;
}

static PyObject *stop(PyObject *module, PyObject *nothing) {
    (void)module, (void)nothing;
    if (sampler && sampler->pid == getpid()) stop_thread(sampler);
    Py_RETURN_NONE;
}

static PyObject *is_running(PyObject *module, PyObject *nothing) {
    (void)module, (void)nothing;
    return PyBool_FromLong(sampler && sampler->pid == getpid() && sampler->is_running);
}

/* Starts again from Python's next safe point: some versions count threads after all that follows a fork. */
static int start_pending(void *hz) {
    Sampler *s = own_sampler();
    double rate = *(double *)hz;
    PyMem_RawFree(hz);
    if (s && !s->is_running && s->interpreter) start_thread(s, rate);
    PyErr_Clear();
    return 0;
}

static PyObject *start_soon(PyObject *module, PyObject *args) {
    double hz;
    (void)module;
    if (!PyArg_ParseTuple(args, "d", &hz)) return NULL;
    double *kept = PyMem_RawMalloc(sizeof *kept);
    if (!kept) return PyErr_NoMemory();
    *kept = hz;
    if (Py_AddPendingCall(start_pending, kept) < 0) { PyMem_RawFree(kept); Py_RETURN_FALSE; }
    Py_RETURN_TRUE;
}

#define LOCKED(s, what) do { Py_BEGIN_ALLOW_THREADS pthread_mutex_lock(&(s)->lock); what; pthread_mutex_unlock(&(s)->lock); Py_END_ALLOW_THREADS } while (0)

static PyObject *set_rate(PyObject *module, PyObject *args) {
    double hz;
    (void)module;
    if (!PyArg_ParseTuple(args, "d", &hz)) return NULL;
    if (!(hz > 0.0 && hz <= 10000.0)) return PyErr_Format(PyExc_ValueError, "a rate from 0 to 10000 looks a second");
    Sampler *s = own_sampler();
    if (!s) return NULL;
    LOCKED(s, s->hz = hz; pthread_cond_signal(&s->wake));
    Py_RETURN_NONE;
}

static void add_excluded(Sampler *s, pid_t tid) {
    if (is_excluded(s, tid)) return;
    s->excluded[s->excluded_count < EXCLUDED_MAX ? s->excluded_count++ : 0] = tid;
}

static PyObject *exclude(PyObject *module, PyObject *args) {
    int tid;
    (void)module;
    if (!PyArg_ParseTuple(args, "i", &tid)) return NULL;
    Sampler *s = own_sampler();
    if (!s) return NULL;
    LOCKED(s, add_excluded(s, (pid_t)tid));
    Py_RETURN_NONE;
}

static PyObject *forget(PyObject *module, PyObject *nothing) {
    (void)module, (void)nothing;
    Sampler *s = own_sampler();
    if (!s) return NULL;
    if (s->is_running) return PyErr_Format(PyExc_RuntimeError, "the sampler runs");
    free_tables(&s->tables);
    s->wall = 0.0;
    s->own_cpu = s->excluded_cpu = 0;
    s->excluded_count = 0;
    if (!make_tables(&s->tables, seconds_now())) { sampler = NULL; free(s); return PyErr_NoMemory(); }
    Py_RETURN_NONE;
}

/* ---- what was seen ------------------------------------------------------------------------------------------- */

typedef struct { double cpu, wall, waiting, unseen, recent, turn, hz; uint64_t own, samples, rejected, tick, evictions; } Totals;

static Totals totals_of(Sampler *s) {
    const Tables *t = &s->tables;
    return (Totals){t->cpu, s->wall, t->waiting, t->unseen, t->recent / scale_at(t, seconds_now()), t->turn_seconds, s->hz,
                    s->own_cpu + s->excluded_cpu, t->samples, t->rejected, s->tick, t->evictions};
}

static PyObject *totals(PyObject *module, PyObject *nothing) {
    (void)module, (void)nothing;
    Sampler *s = own_sampler();
    Totals f;
    if (!s) return NULL;
    LOCKED(s, f = totals_of(s));
    return Py_BuildValue("{s:d,s:d,s:d,s:d,s:d,s:d,s:d,s:d,s:K,s:K,s:K,s:K}", "cpu", f.cpu, "wall", f.wall, "waiting", f.waiting,
                         "unseen", f.unseen, "recent", f.recent, "turn", f.turn, "own", 1e-9 * (double)f.own, "hz", f.hz,
                         "samples", (unsigned long long)f.samples, "rejected", (unsigned long long)f.rejected,
                         "looks", (unsigned long long)f.tick, "evictions", (unsigned long long)f.evictions);
}

typedef struct { Loop loop; uint64_t serial; double total, recent; } LoopRow;

static void sum_loops(const Tables *t, LoopRow *rows, int count, double scale) {
    for (uint32_t i = 0; i < t->place_count; i++) {
        const Place *place = &t->places[i];
        for (int j = 0; j < count; j++) {
            const Loop *loop = &rows[j].loop;
            if (loop->code != place->code || place->unit < loop->range.start || place->unit > loop->range.end) continue;
            rows[j].total += place->total;
            rows[j].recent += place->recent / scale;
        }
    }
}

static int copy_loop_rows(const Tables *t, LoopRow *rows) {
    int count = 0;
    for (int i = 0; i < t->loop_count; i++) {
        if (t->loops[i].turns < LEAST_TURNS) continue;
        rows[count++] = (LoopRow){t->loops[i], t->codes[t->loops[i].code].serial, 0.0, 0.0};
    }
    sum_loops(t, rows, count, scale_at(t, seconds_now()));
    return count;
}

static PyObject *loop_tuple(const LoopRow *row, double now) {
    const Loop *l = &row->loop;
    return Py_BuildValue("(KiikiOKddddd)", (unsigned long long)row->serial, l->range.start * UNIT_BYTES, l->range.end * UNIT_BYTES,
                         l->thread, l->depth, l->is_call ? Py_True : Py_False, (unsigned long long)l->turns,
                         l->intervals > 0 ? l->wall / l->intervals : 0.0, l->intervals > 0 ? l->cpu / l->intervals : 0.0,
                         row->total, row->recent, now - l->last_wall);
}

static PyObject *list_of_loops(const LoopRow *rows, int count) {
    PyObject *list = PyList_New(0);
    double now = seconds_now();
    for (int i = 0; list && i < count; i++) {
        PyObject *each = loop_tuple(&rows[i], now);
        if (!each || PyList_Append(list, each) < 0) Py_CLEAR(list);
        Py_XDECREF(each);
    }
    return list;
}

static PyObject *loops(PyObject *module, PyObject *nothing) {
    (void)module, (void)nothing;
    Sampler *s = own_sampler();
    LoopRow *rows = s ? malloc(LOOPS_MAX * sizeof(LoopRow)) : NULL;
    int count;
    if (!rows) return s ? PyErr_NoMemory() : NULL;
    LOCKED(s, count = copy_loop_rows(&s->tables, rows));
    PyObject *list = list_of_loops(rows, count);
    free(rows);
    return list;
}

static uint32_t code_of_serial(const Tables *t, uint64_t serial) {
    for (uint32_t i = 0; i < t->code_count; i++)
        if (t->codes[i].serial == serial) return i;
    return NONE;
}

static void set_turn_to(Tables *t, uint64_t serial, Range range) {
    Turn turn = {code_of_serial(t, serial), range};
    if (turn.code != t->turn.code || range.start != t->turn.range.start || range.end != t->turn.range.end) set_turn(t, turn);
}

static PyObject *set_turn_method(PyObject *module, PyObject *args) {
    unsigned long long serial;
    int start_byte, end_byte;
    (void)module;
    if (!PyArg_ParseTuple(args, "Kii", &serial, &start_byte, &end_byte)) return NULL;
    Sampler *s = own_sampler();
    if (!s) return NULL;
    LOCKED(s, set_turn_to(&s->tables, serial, ((Range){start_byte / UNIT_BYTES, end_byte / UNIT_BYTES})));
    Py_RETURN_NONE;
}

typedef struct { int32_t unit; double total; } LineRow;
typedef struct {
    uint32_t code;
    uint64_t serial;
    double score, self, total, waiting, recent, recent_self, below;
    int line_count;
    LineRow lines[LINES_MAX];
} FunctionRow;
typedef struct { double score; uint32_t code; } Rank;

static int compare_ranks(const void *a, const void *b) {
    double x = ((const Rank *)a)->score, y = ((const Rank *)b)->score;
    return (x < y) - (x > y);
}

static double share(double part, double whole) { return whole > 0.0 ? part / whole : 0.0; }

/* The largest share of a function: of the run, of the last seconds, of the turn, of the waiting. */
static double rank_of(const Tables *t, const Code *c) {
    double whole = share(c->total, t->cpu), recent = share(c->recent, t->recent), turn = share(c->below, t->turn_seconds);
    double waiting = share(c->waiting, t->waiting), best = whole > recent ? whole : recent;
    if (turn > best) best = turn;
    return waiting > best ? waiting : best;
}

static void add_line(FunctionRow *row, int32_t unit, double total) {
    int at = row->line_count < LINES_MAX ? row->line_count++ : LINES_MAX;
    while (at > 0 && row->lines[at - 1].total < total) {
        if (at < LINES_MAX) row->lines[at] = row->lines[at - 1];
        at--;
    }
    if (at < LINES_MAX) row->lines[at] = (LineRow){unit, total};
}

static void copy_function(FunctionRow *row, const Code *c, uint32_t number, double scale) {
    *row = (FunctionRow){.code = number, .serial = c->serial, .self = c->self, .total = c->total, .waiting = c->waiting,
                         .recent = c->recent / scale, .recent_self = c->recent_self / scale, .below = c->below};
}

static int copy_functions(const Tables *t, FunctionRow *rows, int limit) {
    Rank *ranks = malloc(CODES_MAX * sizeof(Rank));
    int *row_of = malloc(CODES_MAX * sizeof(int)), count = 0;
    double scale = scale_at(t, seconds_now());
    if (ranks && row_of) {
        for (uint32_t i = 0; i < t->code_count; i++) { ranks[i] = (Rank){rank_of(t, &t->codes[i]), i}; row_of[i] = -1; }
        qsort(ranks, t->code_count, sizeof(Rank), compare_ranks);
        for (; count < limit && count < (int)t->code_count && ranks[count].score > 0.0; count++) {
            copy_function(&rows[count], &t->codes[ranks[count].code], ranks[count].code, scale);
            row_of[ranks[count].code] = count;
        }
        for (uint32_t i = 0; i < t->place_count; i++)
            if (row_of[t->places[i].code] >= 0) add_line(&rows[row_of[t->places[i].code]], t->places[i].unit, t->places[i].total);
    }
    free(ranks);
    free(row_of);
    return count;
}

static PyObject *lines_of(const FunctionRow *row) {
    PyObject *lines = PyTuple_New(row->line_count);
    for (int i = 0; lines && i < row->line_count; i++) {
        PyObject *each = Py_BuildValue("(id)", row->lines[i].unit * UNIT_BYTES, row->lines[i].total);
        if (!each) Py_CLEAR(lines);
        else PyTuple_SET_ITEM(lines, i, each);
    }
    return lines;
}

static PyObject *list_of_functions(const FunctionRow *rows, int count) {
    PyObject *list = PyList_New(0);
    for (int i = 0; list && i < count; i++) {
        const FunctionRow *r = &rows[i];
        PyObject *lines = lines_of(r);
        PyObject *each = lines ? Py_BuildValue("(KddddddN)", (unsigned long long)r->serial, r->self, r->total, r->waiting, r->recent,
                                               r->recent_self, r->below, lines) : NULL;
        if (!each || PyList_Append(list, each) < 0) Py_CLEAR(list);
        Py_XDECREF(each);
    }
    return list;
}

static PyObject *functions(PyObject *module, PyObject *args) {
    int limit, count;
    (void)module;
    if (!PyArg_ParseTuple(args, "i", &limit)) return NULL;
    if (limit < 1 || limit > CODES_MAX) limit = CODES_MAX;
    Sampler *s = own_sampler();
    FunctionRow *rows = s ? malloc((size_t)limit * sizeof(FunctionRow)) : NULL;
    if (!rows) return s ? PyErr_NoMemory() : NULL;
    LOCKED(s, count = copy_functions(&s->tables, rows, limit));
    PyObject *list = list_of_functions(rows, count);
    free(rows);
    return list;
}

/* ---- the call tree ---------------------------------------------------------------------------------------------- */

typedef struct { uint32_t parent; uint64_t serial; int32_t unit; double self, waiting; } NodeRow;

static uint32_t copy_nodes(const Tables *t, NodeRow *rows) {
    for (uint32_t i = 0; i < t->node_count; i++) {
        const Node *node = &t->nodes[i];
        const Place *place = &t->places[node->place];
        rows[i] = (NodeRow){node->parent, t->codes[place->code].serial, place->unit, node->self, node->waiting};
    }
    return t->node_count;
}

static PyObject *tree(PyObject *module, PyObject *nothing) {
    (void)module, (void)nothing;
    Sampler *s = own_sampler();
    NodeRow *rows = s ? malloc(NODES_MAX * sizeof(NodeRow)) : NULL;
    uint32_t count;
    if (!rows) return s ? PyErr_NoMemory() : NULL;
    LOCKED(s, count = copy_nodes(&s->tables, rows));
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list && i < count; i++) {
        const NodeRow *r = &rows[i];
        PyObject *each = Py_BuildValue("(iKidd)", r->parent == NONE ? -1 : (int)r->parent, (unsigned long long)r->serial,
                                       r->unit * UNIT_BYTES, r->self, r->waiting);
        if (!each || PyList_Append(list, each) < 0) Py_CLEAR(list);
        Py_XDECREF(each);
    }
    free(rows);
    return list;
}

/* ---- names --------------------------------------------------------------------------------------------------- */

typedef struct { Text file, name; char *lines; int32_t line_bytes, first_line; int is_found; } Names;

static int same_text(Text *to, const Text *from) {
    size_t nbytes = (size_t)from->length * (size_t)from->kind;
    *to = (Text){NULL, from->length, from->kind};
    if (!nbytes) return 1;
    if (!(to->data = malloc(nbytes))) return 0;
    memcpy(to->data, from->data, nbytes);
    return 1;
}

/* Copied under the lock of the tables, made objects of later: making objects may run any Python code. */
static Names names_of(const Tables *t, uint64_t serial) {
    Names names = {.is_found = 0};
    uint32_t number = code_of_serial(t, serial);
    if (number == NONE) return names;
    const Code *code = &t->codes[number];
    names.first_line = code->view.first_line;
    names.is_found = same_text(&names.file, &code->file) && same_text(&names.name, &code->name);
    if (names.is_found && code->line_bytes && (names.lines = malloc((size_t)code->line_bytes))) {
        memcpy(names.lines, code->lines, (size_t)code->line_bytes);
        names.line_bytes = code->line_bytes;
    }
    return names;
}

static PyObject *string_of(const Text *text) {
    return PyUnicode_FromKindAndData(text->kind ? text->kind : 1, text->data ? text->data : "", text->data ? text->length : 0);
}

static PyObject *names(PyObject *module, PyObject *args) {
    unsigned long long serial;
    Names found;
    (void)module;
    if (!PyArg_ParseTuple(args, "K", &serial)) return NULL;
    Sampler *s = own_sampler();
    if (!s) return NULL;
    LOCKED(s, found = names_of(&s->tables, serial));
    PyObject *file = string_of(&found.file), *name = string_of(&found.name), *made = NULL;
    if (file && name && found.is_found)
        made = Py_BuildValue("(OOiy#)", file, name, found.first_line, found.lines ? found.lines : "", (Py_ssize_t)found.line_bytes);
    else if (file && name) { Py_INCREF(Py_None); made = Py_None; }
    Py_XDECREF(file);
    Py_XDECREF(name);
    free_text(&found.file);
    free_text(&found.name);
    free(found.lines);
    return made;
}

static PyMethodDef methods[] = {
    {"start", start, METH_VARARGS, "start(hz, own_share_max=0.01): begins or goes on sampling; OSError where frames cannot be read."},
    {"start_soon", start_soon, METH_VARARGS, "start_soon(hz): the same at the main thread's next safe point."},
    {"stop", stop, METH_NOARGS, "stop(): ends the thread and waits for its end; what it saw stays."},
    {"is_running", is_running, METH_NOARGS, "is_running(): whether the thread of this process runs."},
    {"set_rate", set_rate, METH_VARARGS, "set_rate(hz): looks a second from now on."},
    {"exclude", exclude, METH_VARARGS, "exclude(native_id): the CPU time of this thread is the sampler's own."},
    {"forget", forget, METH_NOARGS, "forget(): begins with empty tables; only while the thread does not run."},
    {"totals", totals, METH_NOARGS, "totals(): seconds and counts of all that was seen."},
    {"loops", loops, METH_NOARGS, "loops(): the loops that were seen to go back."},
    {"set_turn", set_turn_method, METH_VARARGS, "set_turn(serial, start, end): counts seconds below this loop; serial 0: none."},
    {"functions", functions, METH_VARARGS, "functions(limit): seconds of the hottest functions."},
    {"tree", tree, METH_NOARGS, "tree(): nodes of the call tree, callers first: (parent, serial, offset, own seconds, waiting)."},
    {"names", names, METH_VARARGS, "names(serial): (file, qualified name, first line, line table), or None."},
    {NULL, NULL, 0, NULL}};
#else
#define IS_SUPPORTED 0
static PyMethodDef methods[] = {{NULL, NULL, 0, NULL}};
#endif

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "codedag.instrument._sampler", .m_doc = "Samples frames without the interpreter lock.",
    .m_size = -1, .m_methods = methods};

PyMODINIT_FUNC PyInit__sampler(void) {
    PyObject *m = PyModule_Create(&definition);
    if (m && PyModule_AddObjectRef(m, "IS_SUPPORTED", IS_SUPPORTED ? Py_True : Py_False) < 0) Py_CLEAR(m);
    return m;
}
