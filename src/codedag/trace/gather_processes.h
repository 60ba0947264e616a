/* What a gatherer does for other processes: tokens that stand for batches made elsewhere, and a fresh start after a fork;
 * and what a memory pass adds.  Part of _gather.c. */

/* A token is noted like a producer; the operation that consumes it is remembered with it. */
static PyObject *method_arrive(PyObject *self, PyObject *args) {
    unsigned int token;
    PyObject *before;
    if (!PyArg_ParseTuple(args, "IO", &token, &before)) return NULL;
    Returned *noted = (Returned *)noted_with(self, Py_None, before == Py_None ? NULL : before, 1);
    if (noted && sums_add(&noted->flows, TOKEN | token, 0) < 0) Py_CLEAR(noted);
    return (PyObject *)noted;
}

static int take_token(Gatherer *g, uint32_t token, uint32_t number) {
    Arrival *array = grown(g->arrivals, g->arrivals_n, &g->arrivals_room, sizeof *array);
    if (!array) return -1;
    g->arrivals = array;
    g->arrivals[g->arrivals_n++] = (Arrival){token, number};
    return 0;
}

static PyObject *method_arrivals(PyObject *self, PyObject *Py_UNUSED(unused)) {
    Gatherer *g = (Gatherer *)self;
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < g->arrivals_n; i++) {
        PyObject *pair = Py_BuildValue("(II)", g->arrivals[i].token, g->arrivals[i].number);
        if (!pair || PyList_Append(list, pair) < 0) Py_CLEAR(list);
        Py_XDECREF(pair);
    }
    return list;
}

/* What was noted about a value, as {producer: bytes}. */
static PyObject *method_flows(PyObject *self, PyObject *value) {
    Returned *noted = (Returned *)noted_with(self, value, NULL, 1);
    PyObject *flows = noted ? PyDict_New() : NULL;
    for (size_t i = 0; flows && i < noted->flows.room; i++) {
        if (!noted->flows.slot[i].key) continue;
        PyObject *key = PyLong_FromUnsignedLongLong(noted->flows.slot[i].key - 1);
        PyObject *size = PyLong_FromUnsignedLongLong(noted->flows.slot[i].sum);
        if (!key || !size || PyDict_SetItem(flows, key, size) < 0) Py_CLEAR(flows);
        Py_XDECREF(key); Py_XDECREF(size);
    }
    Py_XDECREF((PyObject *)noted);
    return flows;
}

/* In a forked child: what the parent counted is the parent's; who made what is still known. */
static PyObject *method_rebase(PyObject *self, PyObject *Py_UNUSED(unused)) {
    Gatherer *g = (Gatherer *)self;
    for (uint32_t i = 0; i < g->records_n; i++) {
        Record *r = record_at(g, i);
        r->count = 0; r->self_ns = r->total_ns = r->out_nbytes = 0;
        r->least_ns = 4.6e18f; r->most_ns = 0;
    }
    for (size_t i = 0; i < g->peaks_room; i++) g->peaks[i] = 0;
    sums_clear(&g->edges);
    g->arrivals_n = 0;
    g->events_n = 0;
    return Py_BuildValue("nI", (Py_ssize_t)g->paths_n, g->records_n);
}

static void gather_peak(PyObject *self, long long nbytes) { ((Gatherer *)self)->peak_next = nbytes; }

static PyObject *method_peak(PyObject *self, PyObject *nbytes) {
    gather_peak(self, PyLong_AsLongLong(nbytes));
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

static int keep_peak(Gatherer *g, uint32_t number) { /* of the operation that is being counted */
    if (number >= g->peaks_room) {
        size_t room = number + number / 2 + 64;
        int64_t *bigger = realloc(g->peaks, room * sizeof *bigger);
        if (!bigger) { PyErr_NoMemory(); return -1; }
        memset(bigger + g->peaks_room, 0, (room - g->peaks_room) * sizeof *bigger);
        g->peaks = bigger; g->peaks_room = room;
    }
    if (g->peaks[number] < g->peak_next) g->peaks[number] = g->peak_next;
    g->peak_next = 0;
    return 0;
}
