/* codedag.plan._sim: the simulator and the loops of the plan search.  _twin.py does the same in plain Python. */
#include "sim_build.h"
#include "sim_lists.h"
#include "sim_search.h"
#include "sim_memory.h"

#define ALLOC(type, count) ((type *)PyMem_RawCalloc((size_t)(count) + 1, sizeof(type)))

static void model_free(Model *m) {
    free(m->pred_at); free(m->pred_mid); free(m->pred); free(m->succ_at); free(m->succ_mid); free(m->succ);
    void *rest[] = {m->cost, m->nbytes, m->latency, m->perbyte, m->group, m->lane, m->via, m->least_latency, m->least_perbyte,
                    m->seconds, m->link_latency, m->link_rate, m->scratch, m->capacity, m->row};
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) PyMem_RawFree(rest[i]);
    Py_TYPE(m)->tp_free((PyObject *)m);
}

static int fits(const Py_buffer *view, size_t count, size_t size, const char *name) {
    if ((size_t)view->len >= count * size) return 1;
    PyErr_Format(PyExc_ValueError, "%s is too short: %zd bytes, %zu needed", name, view->len, count * size);
    return 0;
}

static int model_fill(Model *m, Py_buffer *b) {
    int32_t n = m->n, k = m->k;
    size_t nk = (size_t)n * k;
    Py_ssize_t edges = b[0].len / 8;
    const int64_t *src = b[0].buf, *dst = b[1].buf, *nbytes = b[4].buf, *scratch = b[5].buf;
    const uint8_t *flow = b[2].buf;
    const double *seconds = b[3].buf;
    m->cost = ALLOC(tick, nk); m->nbytes = ALLOC(int64_t, n); m->latency = ALLOC(double, k * k); m->perbyte = ALLOC(double, k * k);
    m->group = ALLOC(int32_t, k); m->lane = ALLOC(int32_t, k * k); m->via = ALLOC(int32_t, k * k);
    m->least_latency = ALLOC(double, k * k); m->least_perbyte = ALLOC(double, k * k); m->seconds = ALLOC(double, nk);
    m->link_latency = ALLOC(double, k * k); m->link_rate = ALLOC(double, k * k); m->row = ALLOC(int32_t, n);
    m->capacity = ALLOC(int64_t, k); m->scratch = b[5].len ? ALLOC(int64_t, nk) : NULL;
    int32_t *level = ALLOC(int32_t, n), *number = ALLOC(int32_t, n), *from = ALLOC(int32_t, edges), *to = ALLOC(int32_t, edges);
    uint64_t *hash = ALLOC(uint64_t, n);
    Place *places = ALLOC(Place, n);
    int result = -2;
    if (!m->cost || !m->nbytes || !m->latency || !m->perbyte || !m->group || !m->lane || !m->via || !m->least_latency ||
        !m->least_perbyte || !m->seconds || !m->link_latency || !m->link_rate || !m->row || !m->capacity || !level ||
        !number || !from || !to || !hash || !places || (b[5].len && !m->scratch)) goto out;
    memcpy(m->group, b[6].buf, k * sizeof(int32_t)); memcpy(m->lane, b[7].buf, (size_t)k * k * sizeof(int32_t));
    memcpy(m->link_latency, b[8].buf, (size_t)k * k * sizeof(double)); memcpy(m->link_rate, b[9].buf, (size_t)k * k * sizeof(double));
    memcpy(m->capacity, b[10].buf, k * sizeof(int64_t));
    for (int32_t d = 0; d < k; d++) if (m->group[d] >= m->groups) m->groups = m->group[d] + 1;
    for (int32_t i = 0; i < k * k; i++) if (m->lane[i] >= m->lanes) m->lanes = m->lane[i] + 1;
    if ((result = find_levels(n, edges, src, dst, level))) goto out;
    find_quantum(m, seconds, nbytes);
    for (size_t i = 0; i < nk; i++) m->cost[i] = seconds[i] < INFINITY ? whole(seconds[i] / m->quantum) : NEVER;
    if ((result = find_hashes(n, k, edges, src, dst, flow, m->cost, nbytes, hash))) goto out;
    for (int32_t v = 0; v < n; v++) places[v] = (Place){level[v], hash[v], v};
    qsort(places, n, sizeof(Place), by_place);
    double sum = 0;
    for (int32_t v = 0; v < n; v++) { m->row[v] = places[v].row; number[places[v].row] = v; }
    for (int32_t v = 0; v < n; v++) {
        int32_t row = m->row[v];
        m->nbytes[v] = nbytes[row]; sum += (double)nbytes[row];
        for (int32_t d = 0; d < k; d++) {
            double c = seconds[(size_t)row * k + d];
            m->seconds[(size_t)v * k + d] = c;
            m->cost[(size_t)v * k + d] = c < INFINITY ? whole(c / m->quantum) : NEVER;
            if (m->scratch) m->scratch[(size_t)v * k + d] = scratch[(size_t)row * k + d];
        }
    }
    for (Py_ssize_t e = 0; e < edges; e++) { from[e] = number[src[e]]; to[e] = number[dst[e]]; }
    result = fill_edges(m, edges, from, to, flow);
    find_routes(m, n ? sum / n : 0);
out:
    PyMem_RawFree(level); PyMem_RawFree(number); PyMem_RawFree(from); PyMem_RawFree(to); PyMem_RawFree(hash); PyMem_RawFree(places);
    return result;
}

static PyObject *model_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    static char *names[] = {"n", "k", "src", "dst", "flow", "seconds", "nbytes", "scratch", "group", "lane", "latency", "rate", "capacity", NULL};
    Py_buffer b[11];
    Py_ssize_t n, k;
    memset(b, 0, sizeof b);
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "nny*y*y*y*y*y*y*y*y*y*y*", names, &n, &k, b, b + 1, b + 2, b + 3, b + 4,
                                     b + 5, b + 6, b + 7, b + 8, b + 9, b + 10)) return NULL;
    Model *m = NULL;
    size_t edges = b[0].len / 8, nk = (size_t)n * k;
    if (fits(b + 1, edges, 8, "dst") && fits(b + 2, edges, 1, "flow") && fits(b + 3, nk, 8, "seconds") && fits(b + 4, n, 8, "nbytes") &&
        (b[5].len == 0 || fits(b + 5, nk, 8, "scratch")) && fits(b + 6, k, 4, "group") && fits(b + 7, (size_t)k * k, 4, "lane") &&
        fits(b + 8, (size_t)k * k, 8, "latency") && fits(b + 9, (size_t)k * k, 8, "rate") && fits(b + 10, k, 8, "capacity") &&
        (m = (Model *)type->tp_alloc(type, 0))) {
        m->n = (int32_t)n; m->k = (int32_t)k;
        int result = model_fill(m, b);
        if (result) {
            PyErr_SetString(result == -1 ? PyExc_ValueError : PyExc_MemoryError, result == -1 ? "the edges form a cycle" : "no memory");
            Py_CLEAR(m);
        }
    }
    for (int i = 0; i < 11; i++) PyBuffer_Release(b + i);
    return (PyObject *)m;
}

static PyObject *bytes_of(const void *data, size_t size) { return PyBytes_FromStringAndSize(data, (Py_ssize_t)size); }

static int order_fits(Model *m, const Py_buffer *order) {
    if (!fits(order, m->n, 4, "order")) return 0;
    const int32_t *x = order->buf;
    for (int32_t i = 0; i < m->n; i++)
        if (x[i] < 0 || x[i] >= m->n) { PyErr_SetString(PyExc_ValueError, "order: no such op"); return 0; }
    return 1;
}

static int place_fits(Model *m, const Py_buffer *place) {
    if (!fits(place, m->n, 4, "place")) return 0;
    const int32_t *x = place->buf;
    for (int32_t i = 0; i < m->n; i++)
        if (x[i] < 0 || x[i] >= m->k) { PyErr_SetString(PyExc_ValueError, "place: no such PU"); return 0; }
    return 1;
}

static PyObject *model_rank(Model *m, PyObject *args) {
    int how; double copying;
    if (!PyArg_ParseTuple(args, "id", &how, &copying)) return NULL;
    PyObject *out = bytes_of(NULL, (size_t)m->n * sizeof(tick));
    if (out) rank_up(m, how, copying, (tick *)PyBytes_AS_STRING(out));
    return out;
}

static PyObject *model_mixed(Model *m, PyObject *unused) {
    PyObject *out = bytes_of(NULL, (size_t)m->n * 4);
    tick *key = malloc(((size_t)m->n + 1) * sizeof(tick));
    if (out && key) mix_levels(m, key);
    if (!out || !key || sorted_by(m, key, 1, (int32_t *)PyBytes_AS_STRING(out))) { Py_CLEAR(out); PyErr_NoMemory(); }
    free(key);
    return out;
}

static PyObject *model_sorted(Model *m, PyObject *args) {
    Py_buffer key; int sign;
    if (!PyArg_ParseTuple(args, "y*i", &key, &sign)) return NULL;
    PyObject *out = NULL;
    if (fits(&key, m->n, sizeof(tick), "key") && (out = bytes_of(NULL, (size_t)m->n * 4)) &&
        sorted_by(m, key.buf, sign, (int32_t *)PyBytes_AS_STRING(out))) { Py_CLEAR(out); PyErr_NoMemory(); }
    PyBuffer_Release(&key);
    return out;
}

static PyObject *model_ahead(Model *m, PyObject *unused) {
    PyObject *out = bytes_of(NULL, (size_t)m->n * m->k * sizeof(tick));
    if (out) look_ahead(m, (tick *)PyBytes_AS_STRING(out));
    return out;
}

static PyObject *model_path_bound(Model *m, PyObject *args) {
    Py_buffer ahead;
    if (!PyArg_ParseTuple(args, "y*", &ahead)) return NULL;
    PyObject *out = fits(&ahead, (size_t)m->n * m->k, sizeof(tick), "ahead") ? PyLong_FromLongLong(path_bound(m, ahead.buf)) : NULL;
    PyBuffer_Release(&ahead);
    return out;
}

static PyObject *model_prices(Model *m, PyObject *args) {
    int rounds;
    if (!PyArg_ParseTuple(args, "i", &rounds)) return NULL;
    PyObject *price = bytes_of(NULL, (size_t)m->groups * sizeof(double));
    if (!price) return NULL;
    double bound = find_prices(m, rounds, (double *)PyBytes_AS_STRING(price));
    return Py_BuildValue("dN", bound, price);
}

static PyObject *model_lists(Model *m, PyObject *args) {
    Py_buffer order, ahead, price, fixed;
    double ahead_weight, price_weight, copy_weight; int gaps, unlimited;
    if (!PyArg_ParseTuple(args, "y*y*dy*dy*ppd", &order, &ahead, &ahead_weight, &price, &price_weight, &fixed, &gaps, &unlimited, &copy_weight)) return NULL;
    PyObject *out = NULL, *place = NULL, *start = NULL;
    State s;
    PuLane *pus = malloc((m->groups + 1) * sizeof(PuLane));
    if (!order_fits(m, &order) || (ahead.len && !fits(&ahead, (size_t)m->n * m->k, sizeof(tick), "ahead")) ||
        (price.len && !fits(&price, m->groups, sizeof(double), "price")) || (fixed.len && !fits(&fixed, m->n, 4, "fixed"))) goto out;
    if (!pus || state_make(&s, m, 0)) { PyErr_NoMemory(); goto out; }
    if ((start = bytes_of(NULL, (size_t)m->n * sizeof(tick)))) {
        Taste taste = {ahead.len ? ahead.buf : NULL, ahead_weight, price.len ? price.buf : NULL, price_weight,
                       fixed.len ? fixed.buf : NULL, gaps, unlimited, copy_weight};
        tick made;
        Py_BEGIN_ALLOW_THREADS
        made = list_schedule(&s, order.buf, &taste, pus, (tick *)PyBytes_AS_STRING(start));
        Py_END_ALLOW_THREADS
        if (made >= NEVER) { Py_DECREF(start); out = Py_NewRef(Py_None); }
        else if ((place = bytes_of(s.place, (size_t)m->n * 4))) out = Py_BuildValue("LNN", (long long)made, place, start);
        else Py_DECREF(start);
    }
    state_free(&s);
out:
    free(pus);
    PyBuffer_Release(&order); PyBuffer_Release(&ahead); PyBuffer_Release(&price); PyBuffer_Release(&fixed);
    return out;
}

static PyObject *model_tails(Model *m, PyObject *args) {
    Py_buffer place, order;
    if (!PyArg_ParseTuple(args, "y*y*", &place, &order)) return NULL;
    PyObject *out = NULL;
    int32_t *next = malloc((m->groups + 1) * sizeof(int32_t));
    if (next && place_fits(m, &place) && order_fits(m, &order) && (out = bytes_of(NULL, (size_t)m->n * sizeof(tick))))
        tails(m, place.buf, order.buf, (tick *)PyBytes_AS_STRING(out), next);
    free(next);
    PyBuffer_Release(&place); PyBuffer_Release(&order);
    return out;
}

/* The ops by falling time to the end in this plan, their own included. */
static PyObject *model_ranked(Model *m, PyObject *args) {
    Py_buffer place, tail;
    if (!PyArg_ParseTuple(args, "y*y*", &place, &tail)) return NULL;
    PyObject *out = NULL;
    tick *key = malloc(((size_t)m->n + 1) * sizeof(tick));
    if (key && place_fits(m, &place) && fits(&tail, m->n, sizeof(tick), "tail") && (out = bytes_of(NULL, (size_t)m->n * 4))) {
        const int32_t *at = place.buf;
        for (int32_t v = 0; v < m->n; v++) key[v] = ((const tick *)tail.buf)[v] + m->cost[(size_t)v * m->k + at[v]];
        if (sorted_by(m, key, -1, (int32_t *)PyBytes_AS_STRING(out))) Py_CLEAR(out);
    }
    if (!out && !PyErr_Occurred()) PyErr_NoMemory();
    free(key);
    PyBuffer_Release(&place); PyBuffer_Release(&tail);
    return out;
}

static PyObject *model_look_from(Model *m, PyObject *args) {
    Py_buffer place, tail;
    if (!PyArg_ParseTuple(args, "y*y*", &place, &tail)) return NULL;
    PyObject *out = NULL;
    if (place_fits(m, &place) && fits(&tail, m->n, sizeof(tick), "tail") && (out = bytes_of(NULL, (size_t)m->n * m->k * sizeof(tick))))
        look_from(m, place.buf, tail.buf, (tick *)PyBytes_AS_STRING(out));
    PyBuffer_Release(&place); PyBuffer_Release(&tail);
    return out;
}

static PyObject *model_simulate(Model *m, PyObject *args) {
    Py_buffer place, order;
    if (!PyArg_ParseTuple(args, "y*y*", &place, &order)) return NULL;
    PyObject *out = NULL;
    State s;
    if (place_fits(m, &place) && order_fits(m, &order)) {
        if (state_make(&s, m, 0)) PyErr_NoMemory();
        else {
            memcpy(s.place, place.buf, (size_t)m->n * 4);
            out = PyLong_FromLongLong(simulate(&s, order.buf));
            state_free(&s);
        }
    }
    PyBuffer_Release(&place); PyBuffer_Release(&order);
    return out;
}

/* (makespan, ends of the ops, copies) in ticks; a copy is op, src, dst (int32) and start, end (int64) in five columns. */
static PyObject *model_schedule(Model *m, PyObject *args) {
    Py_buffer place, order;
    if (!PyArg_ParseTuple(args, "y*y*", &place, &order)) return NULL;
    PyObject *out = NULL, *columns[5] = {NULL};
    State s;
    if (place_fits(m, &place) && order_fits(m, &order)) {
        if (state_make(&s, m, 0)) PyErr_NoMemory();
        else {
            memcpy(s.place, place.buf, (size_t)m->n * 4);
            s.recording = 1;
            tick made = simulate(&s, order.buf);
            Py_ssize_t count = s.copy_count;
            for (int i = 0; i < 5; i++) columns[i] = bytes_of(NULL, count * (i < 3 ? 4 : 8));
            if (!s.failed && columns[0] && columns[1] && columns[2] && columns[3] && columns[4]) {
                for (Py_ssize_t c = 0; c < count; c++) {
                    ((int32_t *)PyBytes_AS_STRING(columns[0]))[c] = s.copies[c].op;
                    ((int32_t *)PyBytes_AS_STRING(columns[1]))[c] = s.copies[c].src;
                    ((int32_t *)PyBytes_AS_STRING(columns[2]))[c] = s.copies[c].dst;
                    ((tick *)PyBytes_AS_STRING(columns[3]))[c] = s.copies[c].start;
                    ((tick *)PyBytes_AS_STRING(columns[4]))[c] = s.copies[c].end;
                }
                out = Py_BuildValue("LN(OOOOO)", (long long)made, bytes_of(s.end, (size_t)m->n * sizeof(tick)), columns[0], columns[1],
                                    columns[2], columns[3], columns[4]);
            } else PyErr_NoMemory();
            for (int i = 0; i < 5; i++) Py_XDECREF(columns[i]);
            state_free(&s);
        }
    }
    PyBuffer_Release(&place); PyBuffer_Release(&order);
    return out;
}

static PyObject *model_anneal(Model *m, PyObject *args) {
    Py_buffer place, order, ahead;
    double total, allowed, hot, cold, clusters, deadline; unsigned long long seed;
    if (!PyArg_ParseTuple(args, "y*y*y*dddddKd", &place, &order, &ahead, &total, &allowed, &hot, &cold, &clusters, &seed, &deadline)) return NULL;
    PyObject *out = NULL;
    Search a;
    if (place_fits(m, &place) && order_fits(m, &order) && fits(&ahead, (size_t)m->n * m->k, sizeof(tick), "ahead")) {
        if (search_make(&a, m)) PyErr_NoMemory();
        else {
            int late = 0;
            size_t ints = (size_t)m->n * 4;
            memcpy(a.s.place, place.buf, ints); memcpy(a.best_place, place.buf, ints);
            memcpy(a.order, order.buf, ints); memcpy(a.best_order, order.buf, ints);
            a.ahead = ahead.buf;
            Py_BEGIN_ALLOW_THREADS
            a.best = a.current = commit(&a, 0);
            if (a.best < NEVER && m->n) late = anneal(&a, total, allowed, hot, cold, clusters, seed, deadline);
            Py_END_ALLOW_THREADS
            out = Py_BuildValue("LNNdO", (long long)a.best, bytes_of(a.best_place, ints), bytes_of(a.best_order, ints), a.work,
                                late ? Py_True : Py_False);
            search_free(&a);
        }
    }
    PyBuffer_Release(&place); PyBuffer_Release(&order); PyBuffer_Release(&ahead);
    return out;
}

static PyObject *model_replay(Model *m, PyObject *args) {
    Py_buffer place, end, op, src, dst, from, to;
    if (!PyArg_ParseTuple(args, "y*y*(y*y*y*y*y*)", &place, &end, &op, &src, &dst, &from, &to)) return NULL;
    Py_ssize_t copies = op.len / 4;
    PyObject *out = NULL, *times[4] = {NULL};
    if (place_fits(m, &place) && fits(&end, m->n, 8, "end")) {
        for (int i = 0; i < 4; i++) times[i] = bytes_of(NULL, (size_t)(i < 2 ? m->n : copies) * 8);
        if (times[0] && times[1] && times[2] && times[3] &&
            !replay(m, place.buf, end.buf, copies, op.buf, src.buf, dst.buf, from.buf, to.buf, (double *)PyBytes_AS_STRING(times[0]),
                    (double *)PyBytes_AS_STRING(times[1]), (double *)PyBytes_AS_STRING(times[2]), (double *)PyBytes_AS_STRING(times[3])))
            out = Py_BuildValue("OOOO", times[0], times[1], times[2], times[3]);
        else PyErr_NoMemory();
        for (int i = 0; i < 4; i++) Py_XDECREF(times[i]);
    }
    PyBuffer_Release(&place); PyBuffer_Release(&end); PyBuffer_Release(&op); PyBuffer_Release(&src); PyBuffer_Release(&dst);
    PyBuffer_Release(&from); PyBuffer_Release(&to);
    return out;
}

static PyObject *model_peaks(Model *m, PyObject *args) {
    Py_buffer place, start, end, op, src, dst, from, to;
    if (!PyArg_ParseTuple(args, "y*y*y*(y*y*y*y*y*)", &place, &start, &end, &op, &src, &dst, &from, &to)) return NULL;
    PyObject *out = NULL;
    int64_t *peak = calloc(m->k + 1, sizeof(int64_t));
    if (peak && place_fits(m, &place) && fits(&start, m->n, 8, "start") && fits(&end, m->n, 8, "end")) {
        if (!peaks(m, place.buf, start.buf, end.buf, op.len / 4, op.buf, src.buf, dst.buf, from.buf, to.buf, peak))
            out = bytes_of(peak, (size_t)m->k * 8);
        else PyErr_NoMemory();
    }
    free(peak);
    PyBuffer_Release(&place); PyBuffer_Release(&start); PyBuffer_Release(&end); PyBuffer_Release(&op); PyBuffer_Release(&src);
    PyBuffer_Release(&dst); PyBuffer_Release(&from); PyBuffer_Release(&to);
    return out;
}

static PyObject *model_rows(Model *m, void *unused) { return bytes_of(m->row, (size_t)m->n * 4); }
static PyObject *model_quantum(Model *m, void *unused) { return PyFloat_FromDouble(m->quantum); }
static PyObject *model_plain(Model *m, void *unused) { return PyBool_FromLong(m->plain); }
static PyObject *model_costs(Model *m, void *unused) { return bytes_of(m->cost, (size_t)m->n * m->k * 8); }
static PyObject *model_edges(Model *m, void *unused) {
    size_t n = m->n, edges = m->pred_at[n];
    return Py_BuildValue("NNNNNN", bytes_of(m->pred_at, (n + 1) * 4), bytes_of(m->pred_mid, n * 4), bytes_of(m->pred, edges * 4),
                         bytes_of(m->succ_at, (n + 1) * 4), bytes_of(m->succ_mid, n * 4), bytes_of(m->succ, edges * 4));
}

static PyGetSetDef model_fields[] = {
    {"rows", (getter)model_rows, NULL, "The row of the file that each op stands in.", NULL},
    {"quantum", (getter)model_quantum, NULL, "Seconds per tick.", NULL},
    {"plain", (getter)model_plain, NULL, "Whether a direct copy is always the best route.", NULL},
    {"costs", (getter)model_costs, NULL, "Ticks per op and PU.", NULL},
    {"edges", (getter)model_edges, NULL, "Predecessors and successors.", NULL},
    {NULL}};

static PyMethodDef model_methods[] = {
    {"rank", (PyCFunction)model_rank, METH_VARARGS, "Upward ranks."},
    {"mixed", (PyCFunction)model_mixed, METH_NOARGS, "Ops level after level, all kinds in proportion."},
    {"sorted", (PyCFunction)model_sorted, METH_VARARGS, "Ops by a key."},
    {"ahead", (PyCFunction)model_ahead, METH_NOARGS, "What is to come after each op on each PU, at best."},
    {"path_bound", (PyCFunction)model_path_bound, METH_VARARGS, "The bound of the longest path."},
    {"prices", (PyCFunction)model_prices, METH_VARARGS, "The bound of the loads, and the prices that give it."},
    {"lists", (PyCFunction)model_lists, METH_VARARGS, "A list schedule: (makespan, place, start), or None."},
    {"tails", (PyCFunction)model_tails, METH_VARARGS, "What comes after each op in this plan."},
    {"ranked", (PyCFunction)model_ranked, METH_VARARGS, "Ops by falling time to the end in this plan."},
    {"look_from", (PyCFunction)model_look_from, METH_VARARGS, "What would come after each op on each PU."},
    {"simulate", (PyCFunction)model_simulate, METH_VARARGS, "The makespan of a placement and order."},
    {"schedule", (PyCFunction)model_schedule, METH_VARARGS, "The whole schedule of a placement and order."},
    {"anneal", (PyCFunction)model_anneal, METH_VARARGS, "Annealing: (makespan, place, order, work, late)."},
    {"replay", (PyCFunction)model_replay, METH_VARARGS, "The schedule in seconds: everything as early as its turn allows."},
    {"peaks", (PyCFunction)model_peaks, METH_VARARGS, "The most bytes that are alive on each PU."},
    {NULL}};

static PyTypeObject model_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "codedag.plan._sim.Model", .tp_basicsize = sizeof(Model),
    .tp_dealloc = (destructor)model_free, .tp_flags = Py_TPFLAGS_DEFAULT, .tp_doc = "An instance of the planning problem.",
    .tp_methods = model_methods, .tp_getset = model_fields, .tp_new = model_new};

static struct PyModuleDef sim_module = {PyModuleDef_HEAD_INIT, .m_name = "_sim", .m_doc = "The simulator and the search.", .m_size = -1};

PyMODINIT_FUNC PyInit__sim(void) {
    if (PyType_Ready(&model_type) < 0) return NULL;
    PyObject *module = PyModule_Create(&sim_module);
    if (module && PyModule_AddObjectRef(module, "Model", (PyObject *)&model_type) < 0) Py_CLEAR(module);
    return module;
}
