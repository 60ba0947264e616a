/* An instance from the columns of its files: numbered by structure, so that the ids in the files decide nothing. */
#ifndef CODEDAG_PLAN_SIM_BUILD_H
#define CODEDAG_PLAN_SIM_BUILD_H

#include "sim.h"

/* What 1 tick is, as a part of the mean cost: fine enough for any plan, coarse enough to forget rounding. */
#define TICKS_PER_MEAN 1048576.0
#define TICKS_AT_MOST 1e15

typedef struct { int32_t level; uint64_t hash; int32_t row; } Place;

static int by_place(const void *a, const void *b) {
    const Place *x = a, *y = b;
    if (x->level != y->level) return x->level < y->level ? -1 : 1;
    if (x->hash != y->hash) return x->hash < y->hash ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

static inline uint64_t mixed(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Levels (longest path from a source) of all rows; -1 if there is a cycle, -2 without memory. */
static int find_levels(int32_t n, Py_ssize_t edges, const int64_t *src, const int64_t *dst, int32_t *level) {
    int32_t *at = calloc((size_t)n + 2, sizeof(int32_t)), *out = malloc((edges + 1) * sizeof(int32_t));
    int32_t *waiting = calloc((size_t)n + 1, sizeof(int32_t)), *queue = malloc(((size_t)n + 1) * sizeof(int32_t));
    int result = -2;
    if (at && out && waiting && queue) {
        int32_t tail = 0;
        for (Py_ssize_t e = 0; e < edges; e++) { at[src[e] + 2]++; waiting[dst[e]]++; }
        for (int32_t v = 0; v < n; v++) at[v + 2] += at[v + 1];
        for (Py_ssize_t e = 0; e < edges; e++) out[at[src[e] + 1]++] = (int32_t)dst[e];
        for (int32_t v = 0; v < n; v++) { level[v] = 0; if (!waiting[v]) queue[tail++] = v; }
        for (int32_t head = 0; head < tail; head++) {
            int32_t v = queue[head];
            for (int32_t e = at[v]; e < at[v + 1]; e++) {
                int32_t w = out[e];
                if (level[v] + 1 > level[w]) level[w] = level[v] + 1;
                if (!--waiting[w]) queue[tail++] = w;
            }
        }
        result = tail == n ? 0 : -1;
    }
    free(at); free(out); free(waiting); free(queue);
    return result;
}

/* Tells rows apart by what they cost and what surrounds them, three steps far. */
static int find_hashes(int32_t n, int32_t k, Py_ssize_t edges, const int64_t *src, const int64_t *dst, const uint8_t *flow,
                       const tick *cost, const int64_t *nbytes, uint64_t *hash) {
    uint64_t *in = malloc(((size_t)n + 1) * sizeof(uint64_t)), *out = malloc(((size_t)n + 1) * sizeof(uint64_t));
    if (!in || !out) { free(in); free(out); return -2; }
    for (int32_t v = 0; v < n; v++) {
        uint64_t h = mixed((uint64_t)nbytes[v] + 1);
        for (int32_t d = 0; d < k; d++) h = mixed(h * 31 + (uint64_t)cost[(size_t)v * k + d]);
        hash[v] = h;
    }
    for (int round = 0; round < 3; round++) {
        memset(in, 0, (size_t)n * sizeof(uint64_t)); memset(out, 0, (size_t)n * sizeof(uint64_t));
        for (Py_ssize_t e = 0; e < edges; e++) {
            in[dst[e]] += mixed(hash[src[e]] * 3 + flow[e]);
            out[src[e]] += mixed(hash[dst[e]] * 5 + flow[e]);
        }
        for (int32_t v = 0; v < n; v++) hash[v] = mixed(hash[v] + mixed(in[v]) * 7 + mixed(out[v]) * 11);
    }
    free(in); free(out);
    return 0;
}

/* Edges sorted by one end (stable): positions into the edge list. */
static int sort_edges(int32_t n, Py_ssize_t edges, const int32_t *end, const int32_t *before, int32_t *sorted) {
    int32_t *at = calloc((size_t)n + 2, sizeof(int32_t));
    if (!at) return -2;
    for (Py_ssize_t e = 0; e < edges; e++) at[end[e] + 1]++;
    for (int32_t v = 0; v < n; v++) at[v + 1] += at[v];
    for (Py_ssize_t i = 0; i < edges; i++) { int32_t e = before ? before[i] : (int32_t)i; sorted[at[end[e]]++] = e; }
    free(at);
    return 0;
}

/* Edges of the model from (from, to, flow) in its own numbers: each once, flow wins, flow first. */
static int fill_edges(Model *m, Py_ssize_t edges, const int32_t *from, const int32_t *to, const uint8_t *flow) {
    int32_t n = m->n, *one = malloc((edges + 1) * sizeof(int32_t)), *two = malloc((edges + 1) * sizeof(int32_t));
    uint8_t *kept_flow = malloc(edges + 1);
    m->pred_at = calloc((size_t)n + 2, sizeof(int32_t)); m->pred_mid = calloc((size_t)n + 2, sizeof(int32_t));
    m->succ_at = calloc((size_t)n + 2, sizeof(int32_t)); m->succ_mid = calloc((size_t)n + 2, sizeof(int32_t));
    m->pred = malloc((edges + 1) * sizeof(int32_t)); m->succ = malloc((edges + 1) * sizeof(int32_t));
    int result = -2;
    if (one && two && kept_flow && m->pred_at && m->pred_mid && m->succ_at && m->succ_mid && m->pred && m->succ &&
        !sort_edges(n, edges, from, NULL, one) && !sort_edges(n, edges, to, one, two)) {
        Py_ssize_t kept = 0;
        for (Py_ssize_t i = 0; i < edges; i++) { /* by (to, from): the same pair stands together */
            int32_t e = two[i], last = kept ? one[kept - 1] : -1;
            if (last >= 0 && from[last] == from[e] && to[last] == to[e]) { kept_flow[kept - 1] |= flow[e]; continue; }
            one[kept] = e; kept_flow[kept++] = flow[e];
        }
        for (int pass = 1; pass >= 0; pass--) { /* flow edges, then order only */
            for (Py_ssize_t i = 0; i < kept; i++)
                if (kept_flow[i] == pass) {
                    m->pred_at[to[one[i]] + 2]++; m->succ_at[from[one[i]] + 2]++;
                    if (pass) { m->pred_mid[to[one[i]]]++; m->succ_mid[from[one[i]]]++; }
                }
        }
        for (int32_t v = 0; v < n; v++) { m->pred_at[v + 2] += m->pred_at[v + 1]; m->succ_at[v + 2] += m->succ_at[v + 1]; }
        for (int pass = 1; pass >= 0; pass--)
            for (Py_ssize_t i = 0; i < kept; i++)
                if (kept_flow[i] == pass) {
                    m->pred[m->pred_at[to[one[i]] + 1]++] = from[one[i]]; m->succ[m->succ_at[from[one[i]] + 1]++] = to[one[i]];
                }
        for (int32_t v = 0; v < n; v++) { m->pred_mid[v] += m->pred_at[v]; m->succ_mid[v] += m->succ_at[v]; }
        result = 0;
    }
    free(one); free(two); free(kept_flow);
    return result;
}

static void find_quantum(Model *m, const double *seconds, const int64_t *nbytes) {
    double means = 0, total = 0, per_byte = 0, latency = 0;
    for (int32_t i = 0; i < m->k * m->k; i++)
        if (m->lane[i] >= 0) {
            if (m->link_latency[i] > latency) latency = m->link_latency[i];
            if (1.0 / m->link_rate[i] > per_byte) per_byte = 1.0 / m->link_rate[i];
        }
    for (int32_t v = 0; v < m->n; v++) {
        double low = INFINITY, high = 0;
        for (int32_t d = 0; d < m->k; d++) {
            double c = seconds[(size_t)v * m->k + d];
            if (c < low) low = c;
            if (c < INFINITY && c > high) high = c;
        }
        means += low;
        total += high + m->k * (latency + (double)nbytes[v] * per_byte);
    }
    double mean = means > 0 ? means / m->n : total > 0 ? total / m->n : 1.0;
    m->quantum = mean / TICKS_PER_MEAN > total / TICKS_AT_MOST ? mean / TICKS_PER_MEAN : total / TICKS_AT_MOST;
}

/* The shortest routes: in general a route depends on the size, so bounds take latency and rate apart. */
static void find_routes(Model *m, double mean_nbytes) {
    int32_t k = m->k;
    double *way = malloc((size_t)k * k * sizeof(double));
    if (!way) return;
    for (int32_t i = 0; i < k * k; i++) {
        int link = m->lane[i] >= 0, self = i % k == i / k;
        m->latency[i] = link ? m->link_latency[i] / m->quantum : 1e300;
        m->perbyte[i] = link ? 1.0 / m->link_rate[i] / m->quantum : 0;
        m->least_latency[i] = self ? 0 : m->latency[i];
        m->least_perbyte[i] = self ? 0 : link ? m->perbyte[i] : 1e300;
        way[i] = self ? 0 : link ? m->latency[i] + mean_nbytes * m->perbyte[i] : 1e300;
        m->via[i] = -1;
    }
    m->plain = 1;
    for (int32_t c = 0; c < k; c++)
        for (int32_t a = 0; a < k; a++)
            for (int32_t b = 0; b < k; b++) {
                if (a == b || a == c || b == c) continue;
                size_t ab = (size_t)a * k + b, ac = (size_t)a * k + c, cb = (size_t)c * k + b;
                if (m->least_latency[ac] + m->least_latency[cb] < m->least_latency[ab]) { m->least_latency[ab] = m->least_latency[ac] + m->least_latency[cb]; m->plain = 0; }
                if (m->least_perbyte[ac] + m->least_perbyte[cb] < m->least_perbyte[ab]) { m->least_perbyte[ab] = m->least_perbyte[ac] + m->least_perbyte[cb]; m->plain = 0; }
                if (way[ac] + way[cb] < way[ab]) {
                    way[ab] = way[ac] + way[cb];
                    m->via[ab] = m->via[cb] >= 0 ? m->via[cb] : c;
                }
            }
    for (int32_t i = 0; i < k * k; i++) if (m->lane[i] < 0 && i % k != i / k) m->plain = 0;
    free(way);
}

#endif
