/* The model that judges a plan, in whole ticks: what an instance is, and what is known while one is simulated.
 *
 * Times are whole numbers (see ticks.py), so that sums do not depend on their order: a part of a simulation can be
 * repeated and gives the same numbers, and the plain-Python twin (_twin.py) gives the same plans.
 */
#ifndef CODEDAG_PLAN_SIM_H
#define CODEDAG_PLAN_SIM_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int64_t tick;
#define NEVER ((tick)1 << 60)
/* How many idle gaps of a copy engine are remembered; more was not better (bench/planner.py). */
#define GAPS 4
/* The same for a processing unit, where only list schedules look for gaps. */
#define PU_GAPS 256

/* How many inputs of an op are copied in the order in which they are ready; more than that in the order of the ops. */
#define SORTED 16

typedef struct {
    tick tail;
    int32_t count, last; /* last: the copy (op * k + PU) that ends at the tail, -1 = none */
    tick from[GAPS], to[GAPS];
} Lane;

typedef struct {
    PyObject_HEAD
    int32_t n, k, groups, lanes, plain;
    /* Edges by op, flow first: pred[pred_at[v] .. pred_mid[v]] are flow, the rest to pred_at[v + 1] are order only. */
    int32_t *pred_at, *pred_mid, *pred, *succ_at, *succ_mid, *succ;
    tick *cost;               /* n * k; NEVER = cannot run there */
    int64_t *nbytes;          /* n */
    double *latency, *perbyte; /* k * k, in ticks */
    int32_t *group, *lane, *via; /* k; k * k, -1 = no link; k * k, the PU before the last hop, -1 = direct */
    double *least_latency, *least_perbyte; /* k * k over all routes: for bounds */
    double *seconds, *link_latency, *link_rate; /* as measured: n * k, k * k */
    int64_t *scratch, *capacity;                /* n * k; k */
    int32_t *row;                               /* n: where the op stands in the file */
    double quantum;                             /* seconds per tick */
} Model;

typedef struct {
    int32_t op, src, dst;
    tick start, end;
} Copy;

typedef struct {
    const Model *m;
    int32_t *place; /* n */
    tick *end;      /* n: of the last whole simulation */
    tick *free;     /* groups */
    Lane *lane;     /* lanes */
    /* When a value is on a PU (n * k): `held` is valid if `issued` (a position) is before `from`; `now` if stamped. */
    tick *held, *now;
    int32_t *issued;
    uint32_t *stamp, epoch;
    int32_t from;
    /* The current plan is being written down: position of the op at work, and what each copy waited for. */
    int committing;
    int32_t at, *blocker;
    int64_t sends; /* copies so far: they are work too */
    int unlimited; /* copies do not take turns: the model of most published schedulers */
    /* What a trial changed, to be undone. */
    int trial;
    Lane *saved;
    int32_t *touched, touches;
    uint32_t *lane_stamp, lane_epoch;
    int32_t *set, sets;
    /* Copies in the order of issue, if wanted. */
    int recording;
    Copy *copies;
    Py_ssize_t copy_count, copy_room;
    int failed;
} State;

static inline tick whole(double x) { return x >= 1e18 ? NEVER : (tick)(x + 0.5); }

static inline tick copy_ticks(const Model *m, int32_t p, int32_t q, int32_t d) {
    size_t at = (size_t)q * m->k + d;
    return whole(m->latency[at] + (double)m->nbytes[p] * m->perbyte[at]);
}

/* No copy from q to d takes less, whatever the route. */
static inline tick least_ticks(const Model *m, int32_t p, int32_t q, int32_t d) {
    if (q == d) return 0;
    size_t at = (size_t)q * m->k + d;
    if (m->plain) return copy_ticks(m, p, q, d);
    double x = m->least_latency[at] + (double)m->nbytes[p] * m->least_perbyte[at];
    return x >= 1e18 ? NEVER : (tick)x;
}

/* When a copy of this length starts: in a remembered gap if it fits, else at the end. */
static inline tick slot_peek(const Lane *l, tick ready, tick length) {
    for (int32_t j = 0; j < l->count; j++) {
        tick z = l->from[j] > ready ? l->from[j] : ready;
        if (z + length <= l->to[j]) return z;
    }
    return l->tail > ready ? l->tail : ready;
}

static inline void gap_drop(Lane *l, int32_t j) {
    for (l->count--; j < l->count; j++) { l->from[j] = l->from[j + 1]; l->to[j] = l->to[j + 1]; }
}

static inline tick slot(Lane *l, tick ready, tick length, int32_t copy) {
    for (int32_t j = 0; j < l->count; j++) {
        tick z = l->from[j] > ready ? l->from[j] : ready;
        if (z + length > l->to[j]) continue;
        int left = z > l->from[j], right = l->to[j] > z + length;
        if (left && right && l->count < GAPS) {
            for (int32_t i = l->count; i > j + 1; i--) { l->from[i] = l->from[i - 1]; l->to[i] = l->to[i - 1]; }
            l->count++;
            l->from[j + 1] = z + length; l->to[j + 1] = l->to[j]; l->to[j] = z;
        } else if (right) l->from[j] = z + length;
        else if (left) l->to[j] = z;
        else gap_drop(l, j);
        return z;
    }
    tick start = l->tail > ready ? l->tail : ready;
    if (start > l->tail) {
        if (l->count == GAPS) gap_drop(l, 0);
        l->from[l->count] = l->tail; l->to[l->count] = start; l->count++;
    }
    l->tail = start + length; l->last = copy;
    return start;
}

static inline tick held_at(const State *s, size_t i) {
    if (s->stamp[i] == s->epoch) return s->now[i];
    return s->issued[i] >= 0 && s->issued[i] < s->from ? s->held[i] : -1;
}

static inline void hold(State *s, size_t i, tick t) {
    if (s->trial) s->set[s->sets++] = (int32_t)i;
    s->now[i] = t; s->stamp[i] = s->epoch;
    if (s->committing) { s->held[i] = t; s->issued[i] = s->at; }
}

static inline Lane *lane_for(State *s, int32_t which) {
    if (s->trial && s->lane_stamp[which] != s->lane_epoch) {
        s->lane_stamp[which] = s->lane_epoch;
        s->saved[s->touches] = s->lane[which]; s->touched[s->touches++] = which;
    }
    return &s->lane[which];
}

static tick send(State *s, int32_t p, int32_t src, int32_t dst) {
    const Model *m = s->m;
    size_t to = (size_t)p * m->k + dst;
    tick ready = held_at(s, (size_t)p * m->k + src), length = copy_ticks(m, p, src, dst);
    if (s->unlimited) { hold(s, to, ready + length); return ready + length; }
    s->sends++;
    Lane *l = lane_for(s, m->lane[(size_t)src * m->k + dst]);
    int32_t before = l->tail > ready ? l->last : -1;
    tick start = slot(l, ready, length, (int32_t)to);
    if (s->committing) s->blocker[to] = start > ready ? before : -1;
    hold(s, to, start + length);
    if (s->recording) {
        if (s->copy_count == s->copy_room) {
            Py_ssize_t room = s->copy_room ? 2 * s->copy_room : 1024;
            Copy *more = realloc(s->copies, room * sizeof(Copy));
            if (!more) { s->failed = 1; return start + length; }
            s->copies = more; s->copy_room = room;
        }
        s->copies[s->copy_count++] = (Copy){p, src, dst, start, start + length};
    }
    return start + length;
}

/* When the value of p is on d, copying it there if it is not; NEVER if no route leads there. */
static tick fetch(State *s, int32_t p, int32_t d) {
    const Model *m = s->m;
    int32_t k = m->k, q = s->place[p];
    tick t = held_at(s, (size_t)p * k + d);
    if (t >= 0) return t;
    if (m->plain) return send(s, p, q, d);
    tick best = NEVER; int32_t source = -1;
    for (int32_t h = 0; h < k; h++) {
        int32_t which = m->lane[(size_t)h * k + d];
        if (which < 0 || (t = held_at(s, (size_t)p * k + h)) < 0) continue;
        tick length = copy_ticks(m, p, h, d), done = slot_peek(&s->lane[which], t, length) + length;
        if (done < best) { best = done; source = h; }
    }
    int32_t via = m->via[(size_t)q * k + d];
    if (via >= 0 && via != source) {
        t = held_at(s, (size_t)p * k + via);
        if (t < 0) t = held_at(s, (size_t)p * k + q) + least_ticks(m, p, q, via);
        if (t + copy_ticks(m, p, via, d) < best) {
            if (fetch(s, p, via) >= NEVER) return NEVER;
            source = via;
        }
    }
    return source < 0 ? NEVER : send(s, p, source, d);
}

static inline void trial_begin(State *s) { s->trial = 1; s->touches = s->sets = 0; s->lane_epoch++; }

static inline void trial_undo(State *s) {
    for (int32_t j = 0; j < s->touches; j++) s->lane[s->touched[j]] = s->saved[j];
    for (int32_t j = 0; j < s->sets; j++) s->stamp[s->set[j]] = 0;
    s->trial = 0;
}

static void state_free(State *s) {
    free(s->place); free(s->end); free(s->free); free(s->lane); free(s->held); free(s->now); free(s->issued);
    free(s->stamp); free(s->saved); free(s->touched); free(s->lane_stamp); free(s->set); free(s->copies);
    free(s->blocker);
    memset(s, 0, sizeof *s);
}

/* 0 if there is memory for everything; `keeps`: positions before `from` may be kept from one simulation to the next. */
static int state_make(State *s, const Model *m, int keeps) {
    memset(s, 0, sizeof *s);
    size_t n = m->n, nk = n * m->k + 1;
    int32_t most = 0;
    for (int32_t v = 0; v < m->n; v++) {
        int32_t degree = m->pred_mid[v] - m->pred_at[v];
        if (degree > most) most = degree;
    }
    s->m = m;
    s->place = malloc((n + 1) * sizeof(int32_t)); s->end = malloc((n + 1) * sizeof(tick));
    s->free = calloc(m->groups + 1, sizeof(tick)); s->lane = calloc(m->lanes + 1, sizeof(Lane));
    s->now = malloc(nk * sizeof(tick)); s->stamp = calloc(nk, sizeof(uint32_t));
    s->saved = malloc((m->lanes + 1) * sizeof(Lane)); s->touched = malloc((m->lanes + 1) * sizeof(int32_t));
    s->lane_stamp = calloc(m->lanes + 1, sizeof(uint32_t));
    s->set = malloc(((size_t)most * m->k + 2) * sizeof(int32_t));
    s->held = malloc((keeps ? nk : 1) * sizeof(tick)); s->issued = malloc(nk * sizeof(int32_t));
    s->blocker = malloc((keeps ? nk : 1) * sizeof(int32_t));
    if (!s->place || !s->end || !s->free || !s->lane || !s->now || !s->stamp || !s->saved || !s->touched ||
        !s->lane_stamp || !s->set || !s->held || !s->issued || !s->blocker) { state_free(s); return -1; }
    memset(s->issued, 0xff, nk * sizeof(int32_t));
    return 0;
}

static void state_begin(State *s) {
    s->epoch++; s->from = 0; s->copy_count = 0; s->trial = s->committing = 0;
    memset(s->free, 0, (s->m->groups + 1) * sizeof(tick));
    memset(s->lane, 0, (s->m->lanes + 1) * sizeof(Lane));
    for (int32_t j = 0; j < s->m->lanes; j++) s->lane[j].last = -1;
}

/* When all that v needs is on d; NEVER if something cannot get there. */
static inline tick inputs_at(State *s, int32_t v, int32_t d) {
    const Model *m = s->m;
    tick ready = 0, when[SORTED];
    int32_t far[SORTED], count = 0;
    for (int32_t e = m->pred_at[v]; e < m->pred_mid[v]; e++) {
        int32_t p = m->pred[e];
        tick t = held_at(s, (size_t)p * m->k + d);
        if (t < 0 && count < SORTED) { /* what is ready first is copied first */
            int32_t i = count++;
            t = held_at(s, (size_t)p * m->k + s->place[p]);
            for (; i > 0 && when[i - 1] > t; i--) { when[i] = when[i - 1]; far[i] = far[i - 1]; }
            when[i] = t; far[i] = p;
            continue;
        }
        if (t < 0) t = fetch(s, p, d);
        if (t > ready) ready = t;
    }
    for (int32_t i = 0; i < count; i++) {
        tick t = fetch(s, far[i], d);
        if (t > ready) ready = t;
    }
    for (int32_t e = m->pred_mid[v]; e < m->pred_at[v + 1]; e++) {
        int32_t p = m->pred[e];
        tick t = held_at(s, (size_t)p * m->k + s->place[p]); /* its own PU holds it when it has ended */
        if (t > ready) ready = t;
    }
    return ready;
}

/* The makespan of this placement (in s->place) and order, from the beginning; NEVER if it cannot run. */
static tick simulate(State *s, const int32_t *order) {
    const Model *m = s->m;
    tick last = 0;
    state_begin(s);
    for (int32_t x = 0; x < m->n; x++) {
        int32_t v = order[x], d = s->place[v], g = m->group[d];
        tick ready = inputs_at(s, v, d), length = m->cost[(size_t)v * m->k + d];
        if (ready >= NEVER || length >= NEVER) return NEVER;
        if (s->free[g] > ready) ready = s->free[g];
        s->end[v] = s->free[g] = ready + length;
        hold(s, (size_t)v * m->k + d, ready + length);
        if (ready + length > last) last = ready + length;
    }
    return last;
}

/* A stream of numbers that depends on the seed only (splitmix64). */
static inline uint64_t draw(uint64_t *seed) {
    uint64_t z = (*seed += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}
static inline double unit(uint64_t *seed) { return (double)(draw(seed) >> 11) * 0x1p-53; }
static inline int32_t below(uint64_t *seed, int32_t most) { return (int32_t)(((draw(seed) >> 32) * (uint64_t)most) >> 32); }

/* What this thread has run, as time.thread_time() counts it. */
static inline double seconds_run(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
