/* Single calls, for the timeline: the first ones of each operation and all that took long.  Part of _gather.c.
 *
 * There is room for so many; when it is full, the bar for "long" is raised until a quarter is free.  events.py is the
 * same in plain Python. */

#define MOST_EVENTS 8192    /* these four are those of events.py */
#define FIRST_CALLS 2
#define FIRST_OPERATIONS 1024
#define LEAST_LONG 20000    /* nanoseconds: reading the clock is a thousandth of it */

static void events_thin(Gatherer *g) {
    while (g->events_n > MOST_EVENTS / 4 * 3) {
        uint32_t left = 0;
        g->event_least *= 2;
        for (uint32_t i = 0; i < g->events_n; i++)
            if (g->events[i].first || g->events[i].total >= g->event_least) g->events[left++] = g->events[i];
        g->events_n = left;
    }
}

SELDOM static int event_keep(Gatherer *g, uint32_t number, int64_t total, const Leaf *outputs, Py_ssize_t n) {
    int first = record_at(g, number)->count <= FIRST_CALLS && number < FIRST_OPERATIONS;
    if (total <= 0 || (!first && total < g->event_least)) return 0; /* a source is no call */
    if (!g->events && !(g->events = malloc(MOST_EVENTS * sizeof *g->events))) { PyErr_NoMemory(); return -1; }
    if (g->events_n == MOST_EVENTS) events_thin(g);
    struct timespec t;
    int64_t nbytes = 0;
    for (Py_ssize_t i = 0; i < n; i++) nbytes += outputs[i].layout.nbytes;
    clock_gettime(CLOCK_MONOTONIC, &t);
    int64_t now = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
    g->events[g->events_n++] = (Event){now, total, nbytes, PyThread_get_thread_ident(), number, first};
    return 0;
}

static PyObject *method_events(PyObject *self, PyObject *Py_UNUSED(unused)) {
    const Gatherer *g = (Gatherer *)self;
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list && i < g->events_n; i++) {
        const Event e = g->events[i];
        PyObject *each = Py_BuildValue("(IkLLL)", e.number, e.thread, (long long)e.end, (long long)e.total, (long long)e.nbytes);
        if (!each || PyList_Append(list, each) < 0) Py_CLEAR(list);
        Py_XDECREF(each);
    }
    return list ? Py_BuildValue("(LN)", (long long)g->event_least, list) : NULL;
}
