/* List schedules: ranks, look-ahead tables, prices, and the scheduler that places op after op. */
#ifndef CODEDAG_PLAN_SIM_LISTS_H
#define CODEDAG_PLAN_SIM_LISTS_H

#include "sim.h"

enum { MEAN = 0, LEAST = 1, MOST = 2 };

/* One number for the cost of an op on all PUs that can run it. */
static tick weight(const Model *m, int32_t v, int how) {
    const tick *c = m->cost + (size_t)v * m->k;
    tick sum = 0, low = NEVER, high = 0; int32_t count = 0;
    for (int32_t d = 0; d < m->k; d++)
        if (c[d] < NEVER) {
            sum += c[d]; count++;
            if (c[d] < low) low = c[d];
            if (c[d] > high) high = c[d];
        }
    return how == MEAN ? sum / count : how == LEAST ? low : high;
}

/* The longest way to the end, at mean costs; `copying` weighs mean copy times.  Ops are numbered topologically. */
static void rank_up(const Model *m, int how, double copying, tick *rank) {
    double latency = 0, perbyte = 0; int32_t links = 0;
    for (int32_t i = 0; i < m->k * m->k; i++)
        if (m->lane[i] >= 0) { latency += m->latency[i]; perbyte += m->perbyte[i]; links++; }
    if (links) { latency = copying * latency / links; perbyte = copying * perbyte / links; }
    for (int32_t v = m->n - 1; v >= 0; v--) {
        tick most = 0, copy = whole(latency + perbyte * (double)m->nbytes[v]);
        for (int32_t e = m->succ_at[v]; e < m->succ_at[v + 1]; e++) {
            tick r = rank[m->succ[e]] + (e < m->succ_mid[v] ? copy : 0);
            if (r > most) most = r;
        }
        rank[v] = most + weight(m, v, how);
    }
}

typedef struct { tick key; int32_t op; } Keyed;

static int by_key(const void *a, const void *b) {
    const Keyed *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return x->op < y->op ? -1 : x->op > y->op;
}

/* The ops by falling (sign -1) or rising (sign 1) key; equal keys in topological order. */
static int sorted_by(const Model *m, const tick *key, int sign, int32_t *order) {
    Keyed *rows = malloc((m->n + 1) * sizeof(Keyed));
    if (!rows) return -1;
    for (int32_t v = 0; v < m->n; v++) rows[v] = (Keyed){sign * key[v], v};
    qsort(rows, m->n, sizeof(Keyed), by_key);
    for (int32_t x = 0; x < m->n; x++) order[x] = rows[x].op;
    free(rows);
    return 0;
}

static int alike(const Model *m, int32_t v, int32_t w) {
    return m->nbytes[v] == m->nbytes[w] && !memcmp(m->cost + (size_t)v * m->k, m->cost + (size_t)w * m->k, m->k * sizeof(tick));
}

/* A key that goes level after level, and within a level through all kinds of ops in proportion. */
static void mix_levels(const Model *m, tick *key) {
    for (int32_t v = 0; v < m->n; v++) { /* the levels first: ops of one level stand together, the same kind side by side */
        tick level = 0;
        for (int32_t e = m->pred_at[v]; e < m->pred_at[v + 1]; e++)
            if (key[m->pred[e]] + 1 > level) level = key[m->pred[e]] + 1;
        key[v] = level;
    }
    for (int32_t v = 0, w; v < m->n; v = w) {
        tick level = key[v];
        for (w = v + 1; w < m->n && key[w] == level && alike(m, v, w); w++) {}
        for (int32_t i = v; i < w; i++) key[i] = (level << 31) + ((2 * (tick)(i - v) + 1) << 30) / (w - v) / 2;
    }
}

/* What is still to come after an op that ran on d, if every later op had its best PU and no copy waited. */
static void look_ahead(const Model *m, tick *ahead) {
    int32_t k = m->k;
    for (int32_t v = m->n - 1; v >= 0; v--) {
        tick *mine = ahead + (size_t)v * k;
        for (int32_t d = 0; d < k; d++) mine[d] = 0;
        for (int32_t e = m->succ_at[v]; e < m->succ_at[v + 1]; e++) {
            int32_t w = m->succ[e], flow = e < m->succ_mid[v];
            const tick *next = ahead + (size_t)w * k, *cost = m->cost + (size_t)w * k;
            for (int32_t d = 0; d < k; d++) {
                tick best = NEVER;
                for (int32_t q = 0; q < k; q++) {
                    if (cost[q] >= NEVER || next[q] >= NEVER) continue;
                    tick way = flow ? least_ticks(m, v, d, q) : 0;
                    if (way < NEVER && next[q] + cost[q] + way < best) best = next[q] + cost[q] + way;
                }
                if (best > mine[d]) mine[d] = best;
            }
        }
    }
}

/* The bound on the makespan that follows from the longest path. */
static tick path_bound(const Model *m, const tick *ahead) {
    tick bound = 0;
    for (int32_t v = 0; v < m->n; v++) {
        tick best = NEVER;
        for (int32_t d = 0; d < m->k; d++) {
            size_t i = (size_t)v * m->k + d;
            if (m->cost[i] < NEVER && ahead[i] < NEVER && m->cost[i] + ahead[i] < best) best = m->cost[i] + ahead[i];
        }
        if (best > bound) bound = best;
    }
    return bound;
}

#define SAMPLE 20000

static inline tick group_cost(const Model *m, int32_t v, int32_t g) {
    tick low = NEVER;
    for (int32_t d = 0; d < m->k; d++)
        if (m->group[d] == g && m->cost[(size_t)v * m->k + d] < low) low = m->cost[(size_t)v * m->k + d];
    return low;
}

static double priced(const Model *m, const double *price, int32_t step, double *load) {
    double value = 0;
    if (load) for (int32_t g = 0; g < m->groups; g++) load[g] = 0;
    for (int32_t v = 0; v < m->n; v += step) {
        double best = -1, spent = 0; int32_t which = 0;
        for (int32_t g = 0; g < m->groups; g++) {
            tick c = group_cost(m, v, g);
            if (c >= NEVER) continue;
            double x = price[g] * (double)c;
            if (best < 0 || x < best) { best = x; which = g; spent = (double)c; }
        }
        value += best;
        if (load) load[which] += spent;
    }
    return value;
}

/* Prices of the resources (they sum to 1) that make sum of min over resources of price * cost large; returns it. */
static double find_prices(const Model *m, int rounds, double *price) {
    int32_t groups = m->groups, step = m->n / SAMPLE + 1;
    double *log_price = calloc(groups, sizeof(double)), *load = calloc(groups, sizeof(double));
    double *now = calloc(groups, sizeof(double)), best = -1;
    if (!log_price || !load || !now) { free(log_price); free(load); free(now); return -1; }
    for (int32_t g = 0; g < groups; g++) { now[g] = price[g] = 1.0 / groups; }
    for (int round = 0; round < rounds; round++) {
        double value = priced(m, now, step, load), total = 0, top = -1e300, sum = 0;
        if (value > best) { best = value; memcpy(price, now, groups * sizeof(double)); }
        for (int32_t g = 0; g < groups; g++) total += load[g];
        if (total <= 0) break;
        for (int32_t g = 0; g < groups; g++) {
            log_price[g] += 2.0 / sqrt(round + 1.0) * load[g] / total;
            if (log_price[g] > top) top = log_price[g];
        }
        for (int32_t g = 0; g < groups; g++) { log_price[g] -= top; now[g] = exp(log_price[g]); sum += now[g]; }
        for (int32_t g = 0; g < groups; g++) now[g] /= sum;
    }
    free(log_price); free(load); free(now);
    return priced(m, price, 1, NULL);
}

typedef struct {
    tick tail;
    int32_t count;
    tick from[PU_GAPS], to[PU_GAPS];
} PuLane;

static tick pu_peek(const PuLane *l, tick ready, tick length, int gaps) {
    if (gaps && ready < l->tail) {
        int32_t low = 0, high = l->count; /* gaps stand in time order: skip those that end too early */
        while (low < high) {
            int32_t mid = (low + high) / 2;
            if (l->to[mid] > ready) high = mid; else low = mid + 1;
        }
        for (int32_t j = low; j < l->count; j++) {
            tick z = l->from[j] > ready ? l->from[j] : ready;
            if (z + length <= l->to[j]) return z;
        }
    }
    return l->tail > ready ? l->tail : ready;
}

static void pu_take(PuLane *l, tick start, tick length) {
    if (start >= l->tail) {
        if (start > l->tail) {
            if (l->count == PU_GAPS) {
                memmove(l->from, l->from + 1, (PU_GAPS - 1) * sizeof(tick));
                memmove(l->to, l->to + 1, (PU_GAPS - 1) * sizeof(tick));
                l->count--;
            }
            l->from[l->count] = l->tail; l->to[l->count] = start; l->count++;
        }
        l->tail = start + length;
        return;
    }
    for (int32_t j = 0; j < l->count; j++) {
        if (start < l->from[j] || start + length > l->to[j]) continue;
        int left = start > l->from[j], right = l->to[j] > start + length;
        if (left && right && l->count < PU_GAPS) {
            memmove(l->from + j + 1, l->from + j, (l->count - j) * sizeof(tick));
            memmove(l->to + j + 1, l->to + j, (l->count - j) * sizeof(tick));
            l->count++;
            l->to[j] = start; l->from[j + 1] = start + length;
        } else if (right) l->from[j] = start + length;
        else if (left) l->to[j] = start;
        else {
            memmove(l->from + j, l->from + j + 1, (l->count - j - 1) * sizeof(tick));
            memmove(l->to + j, l->to + j + 1, (l->count - j - 1) * sizeof(tick));
            l->count--;
        }
        return;
    }
}

typedef struct {
    const tick *ahead;   /* n * k, or NULL */
    double ahead_weight;
    const double *price; /* groups, or NULL */
    double price_weight;
    const int32_t *fixed; /* n, -1 = free; or NULL */
    int gaps, unlimited;
    double copy_weight; /* what a tick of copying costs beside the waiting: the link is not free for others */
} Taste;

static tick copying(const State *s, int32_t v, int32_t d) {
    const Model *m = s->m;
    tick sum = 0;
    for (int32_t e = m->pred_at[v]; e < m->pred_mid[v]; e++) {
        int32_t p = m->pred[e];
        if (held_at(s, (size_t)p * m->k + d) < 0) sum += least_ticks(m, p, s->place[p], d);
    }
    return sum > NEVER ? NEVER : sum;
}

static inline tick liking(const Model *m, const Taste *t, int32_t v, int32_t d, double cheapest) {
    double x = 0;
    size_t i = (size_t)v * m->k + d;
    if (t->ahead) { if (t->ahead[i] >= NEVER) return NEVER; x += t->ahead_weight * (double)t->ahead[i]; }
    if (t->price) x += t->price_weight * (t->price[m->group[d]] * (double)m->cost[i] - cheapest);
    return whole(x);
}

/* Places op after op where its finish plus `taste` is least; fills s->place and start; NEVER if some op fits nowhere. */
static tick list_schedule(State *s, const int32_t *order, const Taste *t, PuLane *pus, tick *start) {
    const Model *m = s->m;
    int32_t k = m->k;
    tick last = 0;
    state_begin(s);
    s->unlimited = t->unlimited;
    memset(pus, 0, m->groups * sizeof(PuLane));
    for (int32_t x = 0; x < m->n; x++) {
        int32_t v = order[x], chosen = -1;
        const tick *cost = m->cost + (size_t)v * k;
        tick best = NEVER, floor = 0;
        double cheapest = 0;
        if (t->price) {
            cheapest = 1e300;
            for (int32_t d = 0; d < k; d++)
                if (cost[d] < NEVER && t->price[m->group[d]] * (double)cost[d] < cheapest)
                    cheapest = t->price[m->group[d]] * (double)cost[d];
        }
        for (int32_t e = m->pred_at[v]; e < m->pred_at[v + 1]; e++)
            if (s->end[m->pred[e]] > floor) floor = s->end[m->pred[e]];
        for (int32_t d = 0; d < k; d++) {
            if (cost[d] >= NEVER || (t->fixed && t->fixed[v] >= 0 && t->fixed[v] != d)) continue;
            tick like = liking(m, t, v, d, cheapest);
            if (like >= NEVER) continue;
            if (t->copy_weight > 0) like += whole(t->copy_weight * (double)copying(s, v, d));
            const PuLane *pu = &pus[m->group[d]];
            if (pu_peek(pu, floor, cost[d], t->gaps) + cost[d] + like >= best) continue;
            trial_begin(s);
            tick ready = inputs_at(s, v, d);
            trial_undo(s);
            if (ready >= NEVER) continue;
            tick done = pu_peek(pu, ready, cost[d], t->gaps) + cost[d] + like;
            if (done < best) { best = done; chosen = d; }
        }
        if (chosen < 0) return NEVER;
        tick ready = inputs_at(s, v, chosen), begin = pu_peek(&pus[m->group[chosen]], ready, cost[chosen], t->gaps);
        pu_take(&pus[m->group[chosen]], begin, cost[chosen]);
        s->place[v] = chosen; start[v] = begin; s->end[v] = begin + cost[chosen];
        hold(s, (size_t)v * k + chosen, s->end[v]);
        if (s->end[v] > last) last = s->end[v];
    }
    return last;
}

/* The longest way to the end through edges and turns on the PUs, for this placement and order; without waiting. */
static void tails(const Model *m, const int32_t *place, const int32_t *order, tick *tail, int32_t *next) {
    for (int32_t g = 0; g < m->groups; g++) next[g] = -1;
    for (int32_t x = m->n - 1; x >= 0; x--) {
        int32_t v = order[x], d = place[v], g = m->group[d];
        tick most = 0;
        if (next[g] >= 0) most = tail[next[g]] + m->cost[(size_t)next[g] * m->k + place[next[g]]];
        for (int32_t e = m->succ_at[v]; e < m->succ_at[v + 1]; e++) {
            int32_t w = m->succ[e];
            tick way = tail[w] + m->cost[(size_t)w * m->k + place[w]];
            if (e < m->succ_mid[v]) way += least_ticks(m, v, d, place[w]);
            if (way > most) most = way;
        }
        tail[v] = most; next[g] = v;
    }
}

/* What would be to come after an op on each PU if the others stayed where they are. */
static void look_from(const Model *m, const int32_t *place, const tick *tail, tick *ahead) {
    for (int32_t v = 0; v < m->n; v++)
        for (int32_t d = 0; d < m->k; d++) {
            tick most = 0;
            for (int32_t e = m->succ_at[v]; e < m->succ_at[v + 1]; e++) {
                int32_t w = m->succ[e];
                tick way = tail[w] + m->cost[(size_t)w * m->k + place[w]];
                if (e < m->succ_mid[v]) way += least_ticks(m, v, d, place[w]);
                if (way > most) most = way;
            }
            ahead[(size_t)v * m->k + d] = most > NEVER ? NEVER : most;
        }
}

#endif
