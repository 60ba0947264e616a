/* Annealing on (placement, order): each attempt simulates from the first change on, and stops once it cannot win. */
#ifndef CODEDAG_PLAN_SIM_SEARCH_H
#define CODEDAG_PLAN_SIM_SEARCH_H

#include "sim_lists.h"

#define STEP 32    /* positions between two kept states */
#define WINDOW 40  /* how far an op moves in the order at once */
#define CLUSTER 12 /* ops that change their PU together, at most */

typedef struct {
    State s;
    int32_t *order, *pos, *best_place, *best_order, *critical, critical_count, *next;
    tick *tail, *last, current, best;
    const tick *ahead;
    tick *free_at, *load_at; /* per kept state and group */
    Lane *lane_at;
    int32_t members[CLUSTER], old[CLUSTER], count;
    int stale;
    double work;
} Search;

static void search_free(Search *a) {
    state_free(&a->s);
    free(a->order); free(a->pos); free(a->best_place); free(a->best_order); free(a->critical); free(a->next);
    free(a->tail); free(a->last); free(a->free_at); free(a->load_at); free(a->lane_at);
}

static int search_make(Search *a, const Model *m) {
    memset(a, 0, sizeof *a);
    size_t n = m->n + 1, kept = m->n / STEP + 2, ints = n * sizeof(int32_t);
    if (state_make(&a->s, m, 1)) return -1;
    a->order = malloc(ints); a->pos = malloc(ints); a->best_place = malloc(ints); a->best_order = malloc(ints);
    a->critical = malloc(2 * ints + 64); a->next = malloc((m->groups + 1) * sizeof(int32_t));
    a->tail = malloc(n * sizeof(tick)); a->last = malloc(kept * sizeof(tick));
    a->free_at = malloc(kept * (m->groups + 1) * sizeof(tick)); a->load_at = malloc(kept * (m->groups + 1) * sizeof(tick));
    a->lane_at = malloc(kept * (m->lanes + 1) * sizeof(Lane));
    if (a->order && a->pos && a->best_place && a->best_order && a->critical && a->next && a->tail && a->last &&
        a->free_at && a->load_at && a->lane_at) return 0;
    search_free(a);
    return -1;
}

/* The makespan from the kept state before `first` on; NEVER as soon as it must exceed `limit`. */
static tick resume(Search *a, int32_t first, int32_t changed, tick limit) {
    State *s = &a->s;
    const Model *m = s->m;
    int32_t c = first / STEP, x0 = c * STEP, groups = m->groups, n = m->n, k = m->k;
    tick last = a->last[c];
    memcpy(s->free, a->free_at + (size_t)c * groups, groups * sizeof(tick));
    memcpy(s->lane, a->lane_at + (size_t)c * m->lanes, m->lanes * sizeof(Lane));
    s->epoch++; s->from = x0; s->sends = 0;
    for (int32_t x = x0; x < n; x++) {
        if (x % STEP == 0 && x > changed) {
            const tick *load = a->load_at + (size_t)(x / STEP) * groups;
            for (int32_t g = 0; g < groups; g++)
                if (s->free[g] + load[g] > limit) { a->work += x - x0 + s->sends; return NEVER; }
        }
        int32_t v = a->order[x], d = s->place[v], g = m->group[d];
        tick ready = inputs_at(s, v, d), length = m->cost[(size_t)v * k + d];
        if (s->free[g] > ready) ready = s->free[g];
        tick end = ready + length;
        if (end + (x > changed ? a->tail[v] : a->ahead[(size_t)v * k + d]) > limit) { a->work += x - x0 + 1 + s->sends; return NEVER; }
        s->free[g] = end;
        hold(s, (size_t)v * k + d, end);
        if (end > last) last = end;
    }
    a->work += n - x0 + s->sends;
    return last;
}

/* Writes down the plan as it is now, from the kept state before `first` on. */
static tick commit(Search *a, int32_t first) {
    State *s = &a->s;
    const Model *m = s->m;
    int32_t c = first / STEP, x0 = c * STEP, groups = m->groups, n = m->n, k = m->k;
    size_t nk = (size_t)n * k;
    tick last = x0 ? a->last[c] : 0;
    for (size_t i = 0; i < nk; i++) if (s->issued[i] >= x0) s->issued[i] = -1;
    if (x0) {
        memcpy(s->free, a->free_at + (size_t)c * groups, groups * sizeof(tick));
        memcpy(s->lane, a->lane_at + (size_t)c * m->lanes, m->lanes * sizeof(Lane));
        s->epoch++;
    } else state_begin(s);
    s->from = x0; s->committing = 1; s->sends = 0;
    for (int32_t x = x0; x < n; x++) {
        if (x % STEP == 0) {
            memcpy(a->free_at + (size_t)(x / STEP) * groups, s->free, groups * sizeof(tick));
            memcpy(a->lane_at + (size_t)(x / STEP) * m->lanes, s->lane, m->lanes * sizeof(Lane));
            a->last[x / STEP] = last;
        }
        int32_t v = a->order[x], d = s->place[v], g = m->group[d];
        s->at = x;
        tick ready = inputs_at(s, v, d), length = m->cost[(size_t)v * k + d];
        if (ready >= NEVER || length >= NEVER) { s->committing = 0; return NEVER; }
        if (s->free[g] > ready) ready = s->free[g];
        tick end = s->free[g] = ready + length;
        hold(s, (size_t)v * k + d, end);
        if (end > last) last = end;
    }
    s->committing = 0;
    tails(m, s->place, a->order, a->tail, a->next);
    tick load[groups];
    memset(load, 0, sizeof load);
    for (int32_t x = n - 1; x >= 0; x--) {
        int32_t v = a->order[x], d = s->place[v];
        load[m->group[d]] += m->cost[(size_t)v * k + d];
        if (x % STEP == 0) memcpy(a->load_at + (size_t)(x / STEP) * groups, load, groups * sizeof(tick));
    }
    a->work += 2 * n - x0 + s->sends; a->stale = 1;
    return last;
}

/* The ops that the makespan hangs on, from the end backwards: through inputs, waiting copies and turns. */
static void find_critical(Search *a) {
    State *s = &a->s;
    const Model *m = s->m;
    int32_t k = m->k, count = 0, v = -1, most = m->n + 8;
    tick last = -1;
    for (int32_t g = 0; g < m->groups; g++) a->next[g] = -1;
    for (int32_t x = 0; x < m->n; x++) { /* pos of the op before it on the same resource goes into best_order's room */
        int32_t w = a->order[x], g = m->group[s->place[w]];
        a->pos[w] = x;
        a->critical[m->n + 8 + w] = a->next[g]; a->next[g] = w;
        tick end = s->held[(size_t)w * k + s->place[w]];
        if (end > last) { last = end; v = w; }
    }
    const int32_t *before = a->critical + m->n + 8;
    while (v >= 0 && count < most) {
        int32_t d = s->place[v], cause = -1, copy = -1;
        a->critical[count++] = v;
        tick start = s->held[(size_t)v * k + d] - m->cost[(size_t)v * k + d];
        for (int32_t e = m->pred_at[v]; e < m->pred_at[v + 1]; e++) {
            int32_t p = m->pred[e], flow = e < m->pred_mid[v], q = flow ? d : s->place[p];
            if (s->held[(size_t)p * k + q] < start) continue;
            cause = p;
            if (q != s->place[p]) copy = (int32_t)((size_t)p * k + q);
        }
        for (; copy >= 0 && count < most; copy = s->blocker[copy])
            if (s->blocker[copy] >= 0) { a->critical[count++] = cause; cause = s->blocker[copy] / k; }
        if (cause < 0 && before[v] >= 0 && s->held[(size_t)before[v] * k + s->place[before[v]]] >= start) cause = before[v];
        v = cause;
    }
    a->critical_count = count; a->stale = 0;
    a->work += m->n;
}

static inline int32_t neighbour(const Model *m, uint64_t *seed, int32_t v) {
    int32_t ins = m->pred_at[v + 1] - m->pred_at[v], outs = m->succ_at[v + 1] - m->succ_at[v];
    if (ins + outs == 0) return -1;
    int32_t j = below(seed, ins + outs);
    return j < ins ? m->pred[m->pred_at[v] + j] : m->succ[m->succ_at[v] + j - ins];
}

static int join(Search *a, int32_t v, int32_t d) {
    State *s = &a->s;
    if (a->count == CLUSTER || s->place[v] == d || s->m->cost[(size_t)v * s->m->k + d] >= NEVER) return 0;
    a->members[a->count] = v; a->old[a->count++] = s->place[v];
    s->place[v] = d;
    return 1;
}

/* Moves v, sometimes with neighbours on the same PU, to another PU; how many ops moved. */
static int change_pu(Search *a, uint64_t *seed, int32_t v, double clusters) {
    const Model *m = a->s.m;
    int32_t d = below(seed, m->k), was = a->s.place[v];
    double kind = unit(seed);
    a->count = 0;
    if (kind < 0.5) {
        int32_t w = neighbour(m, seed, v);
        if (w >= 0) d = a->s.place[w];
    }
    if (!join(a, v, d)) return 0;
    double r = unit(seed);
    if (r < 0.3) {
        int32_t w = neighbour(m, seed, v);
        if (w >= 0) join(a, w, d);
    } else if (r < 0.3 + clusters) {
        int32_t most = 2 + below(seed, CLUSTER - 1);
        for (int32_t tries = 0; a->count < most && tries < 3 * CLUSTER; tries++) {
            int32_t w = neighbour(m, seed, a->members[below(seed, a->count)]);
            if (w >= 0 && a->s.place[w] == was) join(a, w, d);
        }
    }
    return a->count;
}

static void shift(Search *a, int32_t p0, int32_t p1) {
    int32_t v = a->order[p0];
    if (p1 < p0) for (int32_t x = p0; x > p1; x--) { a->order[x] = a->order[x - 1]; a->pos[a->order[x]] = x; }
    else for (int32_t x = p0; x < p1; x++) { a->order[x] = a->order[x + 1]; a->pos[a->order[x]] = x; }
    a->order[p1] = v; a->pos[v] = p1;
}

/* A new position for v between its predecessors and successors, or its own. */
static int32_t new_position(Search *a, uint64_t *seed, int32_t v) {
    const Model *m = a->s.m;
    int32_t low = 0, high = m->n - 1, p0 = a->pos[v];
    for (int32_t e = m->pred_at[v]; e < m->pred_at[v + 1]; e++)
        if (a->pos[m->pred[e]] >= low) low = a->pos[m->pred[e]] + 1;
    for (int32_t e = m->succ_at[v]; e < m->succ_at[v + 1]; e++)
        if (a->pos[m->succ[e]] <= high) high = a->pos[m->succ[e]] - 1;
    if (low < p0 - WINDOW) low = p0 - WINDOW;
    if (high > p0 + WINDOW) high = p0 + WINDOW;
    return high > low ? low + below(seed, high - low + 1) : p0;
}

/* Anneals from the plan in the state until `work` is done or the clock says stop; 1 if the clock did. */
static int anneal(Search *a, double total, double allowed, double hot, double cold, double clusters, uint64_t seed, double deadline) {
    State *s = &a->s;
    const Model *m = s->m;
    int32_t n = m->n;
    double temperature = hot * (double)a->current, floor = cold * (double)a->current, start = a->work;
    double t0 = temperature, slope = t0 > 0 && floor > 0 ? log(floor / t0) : 0;
    for (int64_t round = 0; a->work - start < allowed; round++) {
        if (round % 64 == 0) {
            temperature = t0 * exp(slope * (a->work - start) / total);
            if (deadline > 0 && round % 256 == 0 && seconds_run() > deadline) return 1;
        }
        if (a->stale) find_critical(a);
        a->work += 1;
        int32_t v = unit(&seed) < 0.7 ? a->critical[below(&seed, a->critical_count)] : below(&seed, n);
        double kind = unit(&seed);
        int32_t first = n, changed = -1, p0 = -1, p1 = -1;
        a->count = 0;
        if (kind < 0.6 && m->k > 1) {
            if (!change_pu(a, &seed, v, clusters)) continue;
            for (int32_t j = 0; j < a->count; j++) {
                int32_t x = a->pos[a->members[j]];
                if (x < first) first = x;
                if (x > changed) changed = x;
            }
        }
        if (kind >= 0.6 || m->k == 1 || kind < 0.15) {
            p0 = a->pos[v]; p1 = new_position(a, &seed, v);
            if (p1 == p0) { p0 = -1; if (!a->count) continue; }
            else {
                shift(a, p0, p1);
                if (p0 < first) first = p0;
                if (p1 < first) first = p1;
                if (p0 > changed) changed = p0;
                if (p1 > changed) changed = p1;
            }
        }
        double slack = -temperature * log(1.0 - unit(&seed));
        tick limit = a->current + (slack > 1e17 ? 0 : (tick)slack), made = resume(a, first, changed, limit);
        if (made <= limit) {
            commit(a, first);
            a->current = made;
            if (made < a->best) {
                a->best = made;
                memcpy(a->best_place, s->place, n * sizeof(int32_t)); memcpy(a->best_order, a->order, n * sizeof(int32_t));
            }
            continue;
        }
        if (p0 >= 0) shift(a, p1, p0);
        for (int32_t j = a->count - 1; j >= 0; j--) s->place[a->members[j]] = a->old[j];
    }
    return 0;
}

#endif
