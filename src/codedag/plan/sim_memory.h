/* The schedule in seconds, and what it keeps in memory. */
#ifndef CODEDAG_PLAN_SIM_MEMORY_H
#define CODEDAG_PLAN_SIM_MEMORY_H

#include "sim.h"

typedef struct { tick start, end; int32_t op, copy; } Task; /* copy: -1 = the op itself */

static int by_turn(const void *a, const void *b) {
    const Task *x = a, *y = b;
    if (x->start != y->start) return x->start < y->start ? -1 : 1;
    if (x->end != y->end) return x->end < y->end ? -1 : 1;
    if (x->op != y->op) return x->op < y->op ? -1 : 1; /* ops are numbered topologically, a copy follows its op */
    return x->copy < y->copy ? -1 : x->copy > y->copy;
}

/* Everything as early as its turn allows, in seconds; the turns are those of the times in ticks. */
static int replay(const Model *m, const int32_t *place, const tick *end, Py_ssize_t copies, const int32_t *op, const int32_t *src,
                  const int32_t *dst, const tick *from, const tick *to, double *starts, double *ends, double *copy_starts,
                  double *copy_ends) {
    int32_t n = m->n, k = m->k;
    Task *tasks = malloc(((size_t)n + copies + 1) * sizeof(Task));
    double *have = malloc(((size_t)n * k + 1) * sizeof(double)), *turn = calloc(m->groups + m->lanes + 1, sizeof(double));
    if (!tasks || !have || !turn) { free(tasks); free(have); free(turn); return -1; }
    for (int32_t v = 0; v < n; v++) tasks[v] = (Task){end[v] - m->cost[(size_t)v * k + place[v]], end[v], v, -1};
    for (Py_ssize_t c = 0; c < copies; c++) tasks[n + c] = (Task){from[c], to[c], op[c], (int32_t)c};
    qsort(tasks, n + copies, sizeof(Task), by_turn);
    for (Py_ssize_t i = 0; i < n + copies; i++) {
        int32_t v = tasks[i].op, c = tasks[i].copy;
        if (c >= 0) {
            size_t link = (size_t)src[c] * k + dst[c];
            double *lane = turn + m->groups + m->lane[link], start = have[(size_t)v * k + src[c]];
            if (*lane > start) start = *lane;
            copy_starts[c] = start;
            copy_ends[c] = *lane = have[(size_t)v * k + dst[c]] = start + (m->link_latency[link] + (double)m->nbytes[v] / m->link_rate[link]);
            continue;
        }
        int32_t d = place[v];
        double start = turn[m->group[d]];
        for (int32_t e = m->pred_at[v]; e < m->pred_at[v + 1]; e++) {
            int32_t p = m->pred[e];
            double t = have[(size_t)p * k + (e < m->pred_mid[v] ? d : place[p])];
            if (t > start) start = t;
        }
        starts[v] = start;
        ends[v] = turn[m->group[d]] = have[(size_t)v * k + d] = start + m->seconds[(size_t)v * k + d];
    }
    free(tasks); free(have); free(turn);
    return 0;
}

typedef struct { double time; int64_t change; int32_t pu; } Change;

static int by_time(const void *a, const void *b) {
    const Change *x = a, *y = b;
    if (x->time != y->time) return x->time < y->time ? -1 : 1;
    return x->change < y->change ? -1 : x->change > y->change; /* what is freed goes first */
}

static Change *alive(Change *at, double from, double to, int64_t nbytes, int32_t pu) {
    if (nbytes <= 0 || to <= from) return at;
    *at++ = (Change){from, nbytes, pu};
    *at++ = (Change){to, -nbytes, pu};
    return at;
}

/* The most bytes alive at once on each PU, by the rules of docs/planning.md. */
static int peaks(const Model *m, const int32_t *place, const double *start, const double *end, Py_ssize_t copies, const int32_t *op,
                 const int32_t *src, const int32_t *dst, const double *from, const double *to, int64_t *peak) {
    int32_t n = m->n, k = m->k;
    size_t nk = (size_t)n * k;
    double *until = malloc((nk + 1) * sizeof(double));
    Change *changes = malloc((4 * (size_t)n + 2 * copies + 1) * sizeof(Change)), *last = changes;
    int64_t *now = calloc(k + 1, sizeof(int64_t));
    if (!until || !changes || !now) { free(until); free(changes); free(now); return -1; }
    for (size_t i = 0; i < nk; i++) until[i] = -1;
    for (int32_t v = 0; v < n; v++)
        for (int32_t e = m->pred_at[v]; e < m->pred_mid[v]; e++) {
            double *u = until + (size_t)m->pred[e] * k + place[v];
            if (end[v] > *u) *u = end[v];
        }
    for (Py_ssize_t c = 0; c < copies; c++) {
        double *u = until + (size_t)op[c] * k + src[c];
        if (to[c] > *u) *u = to[c];
    }
    for (int32_t v = 0; v < n; v++) {
        double u = until[(size_t)v * k + place[v]];
        last = alive(last, start[v], u < 0 ? end[v] : u, m->nbytes[v], place[v]);
        if (m->scratch) last = alive(last, start[v], end[v], m->scratch[(size_t)v * k + place[v]], place[v]);
    }
    for (Py_ssize_t c = 0; c < copies; c++) {
        double u = until[(size_t)op[c] * k + dst[c]];
        last = alive(last, from[c], u < 0 ? to[c] : u, m->nbytes[op[c]], dst[c]);
    }
    qsort(changes, last - changes, sizeof(Change), by_time);
    for (Change *c = changes; c < last; c++) {
        now[c->pu] += c->change;
        if (now[c->pu] > peak[c->pu]) peak[c->pu] = now[c->pu];
    }
    free(until); free(changes); free(now);
    return 0;
}

#endif
