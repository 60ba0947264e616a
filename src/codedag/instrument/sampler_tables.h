/* Tables of a sampling profiler: seconds of each function and instruction, the call tree, loops, a log of the last stacks.
 *
 * All of them are bounded: a full table loses its smaller half.  Memory comes from malloc; nothing here is an object.
 */
#ifndef CODEDAG_SAMPLER_TABLES_H
#define CODEDAG_SAMPLER_TABLES_H

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "sampler_memory.h"

#define CODES_MAX 4096
#define PLACES_MAX 32768
#define NODES_MAX 16384 /* of the call tree; in a full one a new call counts as its caller's own time */
#define SLOTS (1 << 16) /* of each hash table: at most half full */
#define LOOPS_MAX 256
#define LOG_WORDS (1 << 18)
#define RECENT_HALF_LIFE_SECONDS 10.0
#define RECENT_WEIGHT 100.0 /* of a recent second against one of the whole run, when tables are full */
#define RESCALE_HALF_LIVES 60.0
#define INTERVALS_MAX 256 /* older intervals of a loop count half */
#define NONE UINT32_MAX

typedef struct {
    uintptr_t address; /* of the code object seen last, 0: freed */
    CodeView view;
    uint64_t serial, contents;
    Text file, name;
    char *lines;
    int32_t line_bytes, loop_count;
    Range *loops;
    double self, total, waiting, recent, recent_self, below;
    uint32_t stamp, below_stamp, checked;
} Code;

typedef struct { uint32_t code; int32_t unit; double total, recent; uint32_t stamp; } Place;

typedef struct { uint32_t parent, place; double self, waiting; } Node; /* parent: an earlier node, NONE: outermost */

typedef struct {
    uint32_t code;
    Range range;
    unsigned long thread;
    int depth, is_call;
    uint64_t turns, activation, last_cpu;
    double intervals, wall, cpu, last_wall;
} Loop;

typedef struct { uint32_t code; Range range; } Turn;

typedef struct {
    Code *codes;
    Place *places;
    Node *nodes;
    uint32_t code_count, place_count, node_count, stamp, address_count;
    uint32_t *by_address, *by_contents, *by_place, *by_node; /* number + 1, 0: free */
    Loop loops[LOOPS_MAX];
    int loop_count;
    Turn turn;
    double turn_seconds;
    uint32_t *log, log_used; /* count, weight, places from the outermost on */
    double origin, cpu, waiting, unseen, recent;
    uint64_t serial, samples, rejected, evictions;
} Tables;

static uint64_t mixed(uint64_t x) {
    x ^= x >> 33; x *= 0xff51afd7ed558ccdULL;
    x ^= x >> 33; x *= 0xc4ceb9fe1a85ec53ULL;
    return x ^ (x >> 33);
}

static uint64_t hash_of(uint64_t seed, const void *data, size_t nbytes) {
    const unsigned char *bytes = data;
    uint64_t hash = seed ^ 0xcbf29ce484222325ULL;
    for (size_t i = 0; i < nbytes; i++) hash = (hash ^ bytes[i]) * 0x100000001b3ULL;
    return mixed(hash);
}

static uint64_t hash_of_words(const char *bytes, int count) {
    uint64_t hash = 0, word;
    for (int i = 0; i < count; i++) {
        memcpy(&word, bytes + (size_t)i * sizeof word, sizeof word);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
        hash ^= hash >> 29;
    }
    return hash;
}

static void free_code(Code *code) {
    free_text(&code->file);
    free_text(&code->name);
    free(code->lines);
    free(code->loops);
    code->lines = NULL;
    code->loops = NULL;
}

static void free_tables(Tables *t) {
    for (uint32_t i = 0; i < t->code_count; i++) free_code(&t->codes[i]);
    free(t->codes); free(t->places); free(t->by_address); free(t->by_contents); free(t->by_place); free(t->log);
    free(t->nodes); free(t->by_node);
    memset(t, 0, sizeof *t);
}

static int make_tables(Tables *t, double now) {
    memset(t, 0, sizeof *t);
    t->codes = calloc(CODES_MAX, sizeof(Code)); /* pages that are never touched cost nothing */
    t->places = calloc(PLACES_MAX, sizeof(Place));
    t->by_address = calloc(SLOTS, sizeof(uint32_t));
    t->by_contents = calloc(SLOTS, sizeof(uint32_t));
    t->by_place = calloc(SLOTS, sizeof(uint32_t));
    t->nodes = calloc(NODES_MAX, sizeof(Node));
    t->by_node = calloc(SLOTS, sizeof(uint32_t));
    t->log = malloc(LOG_WORDS * sizeof(uint32_t));
    t->turn.code = NONE;
    t->origin = now;
    int is_made = t->codes && t->places && t->by_address && t->by_contents && t->by_place && t->log;
    if (is_made && t->nodes && t->by_node) return 1;
    free_tables(t);
    return 0;
}

/* ---- finding ------------------------------------------------------------------------------------------------- */

static uint32_t code_at(const Tables *t, uintptr_t address) {
    for (uint64_t slot = mixed(address);; slot++) {
        uint32_t found = t->by_address[slot & (SLOTS - 1)];
        if (!found) return NONE;
        if (t->codes[found - 1].address == address) return found - 1;
    }
}

static void note_address(Tables *t, uint32_t number) {
    uint64_t slot = mixed(t->codes[number].address);
    while (t->by_address[slot & (SLOTS - 1)]) slot++;
    t->by_address[slot & (SLOTS - 1)] = number + 1;
    t->address_count++;
}

/* Slots of addresses that are no longer valid are only given back here. */
static void renew_addresses(Tables *t) {
    memset(t->by_address, 0, SLOTS * sizeof(uint32_t));
    t->address_count = 0;
    for (uint32_t i = 0; i < t->code_count; i++)
        if (t->codes[i].address) note_address(t, i);
}

static void set_address(Tables *t, uint32_t number, uintptr_t address) {
    t->codes[number].address = address;
    if (t->address_count >= SLOTS / 2) renew_addresses(t);
    else note_address(t, number);
}

static uint64_t place_slot(uint32_t code, int32_t unit) { return mixed(((uint64_t)code << 32) | (uint32_t)unit); }

static void note_place(Tables *t, uint32_t number) {
    uint64_t slot = place_slot(t->places[number].code, t->places[number].unit);
    while (t->by_place[slot & (SLOTS - 1)]) slot++;
    t->by_place[slot & (SLOTS - 1)] = number + 1;
}

/* The number of a place, new if need be; NONE: the table is full. */
static uint32_t place_of(Tables *t, uint32_t code, int32_t unit) {
    for (uint64_t slot = place_slot(code, unit);; slot++) {
        uint32_t found = t->by_place[slot & (SLOTS - 1)];
        if (!found) break;
        if (t->places[found - 1].code == code && t->places[found - 1].unit == unit) return found - 1;
    }
    if (t->place_count == PLACES_MAX) return NONE;
    t->places[t->place_count] = (Place){.code = code, .unit = unit};
    note_place(t, t->place_count);
    return t->place_count++;
}

static uint64_t node_slot(uint32_t parent, uint32_t place) { return mixed(((uint64_t)parent << 32) | place); }

static void note_node(Tables *t, uint32_t number) {
    uint64_t slot = node_slot(t->nodes[number].parent, t->nodes[number].place);
    while (t->by_node[slot & (SLOTS - 1)]) slot++;
    t->by_node[slot & (SLOTS - 1)] = number + 1;
}

/* The node of a place below another node, new if need be; the other one: the tree is full. */
static uint32_t node_of(Tables *t, uint32_t parent, uint32_t place) {
    for (uint64_t slot = node_slot(parent, place);; slot++) {
        uint32_t found = t->by_node[slot & (SLOTS - 1)];
        if (!found) break;
        if (t->nodes[found - 1].parent == parent && t->nodes[found - 1].place == place) return found - 1;
    }
    if (t->node_count == NODES_MAX) return parent;
    t->nodes[t->node_count] = (Node){.parent = parent, .place = place};
    note_node(t, t->node_count);
    return t->node_count++;
}

/* The node of a stack, outermost place first; of a function that calls itself the innermost call stands for all. */
static uint32_t node_of_stack(Tables *t, const uint32_t *stack, int depth) {
    uint32_t node = NONE;
    for (int i = 0; i < depth; i++)
        if (i + 1 == depth || t->places[stack[i]].code != t->places[stack[i + 1]].code) node = node_of(t, node, stack[i]);
    return node;
}

/* ---- code objects -------------------------------------------------------------------------------------------- */

static int copy_loops(const Memory *m, uintptr_t address, Code *code) {
    Range ranges[LOOPS_OF_CODE_MAX];
    size_t nbytes = (size_t)code->view.units * (size_t)UNIT_BYTES;
    unsigned char *bytes = malloc(nbytes);
    int is_read = bytes && copy_from(m, bytes, address + CODE_BYTES, nbytes);
    code->loop_count = is_read ? find_loops(bytes, code->view.units, ranges) : -1;
    free(bytes);
    if (code->loop_count > 0) {
        size_t size = (size_t)code->loop_count * sizeof(Range);
        if ((code->loops = malloc(size))) memcpy(code->loops, ranges, size);
        else code->loop_count = -1;
    }
    return is_read;
}

static uint64_t contents_of(const Code *code) {
    int32_t numbers[2] = {code->view.first_line, code->view.units};
    uint64_t hash = hash_of(1, numbers, sizeof numbers);
    hash = hash_of(hash, code->file.data, (size_t)code->file.length * (size_t)code->file.kind);
    hash = hash_of(hash, code->name.data, (size_t)code->name.length * (size_t)code->name.kind);
    return hash_of(hash, code->lines, (size_t)code->line_bytes);
}

static uint32_t code_with(const Tables *t, uint64_t contents) {
    for (uint64_t slot = contents;; slot++) {
        uint32_t found = t->by_contents[slot & (SLOTS - 1)];
        if (!found || t->codes[found - 1].contents == contents) return found ? found - 1 : NONE;
    }
}

static void note_contents(Tables *t, uint32_t number) {
    uint64_t slot = t->codes[number].contents;
    while (t->by_contents[slot & (SLOTS - 1)]) slot++;
    t->by_contents[slot & (SLOTS - 1)] = number + 1;
}

/* Copies a code object that is new at its address; one with the same file, name and lines continues the old one.
 * NONE: it could not be copied, or the table is full. */
static uint32_t add_code(Tables *t, const Memory *m, uintptr_t address, const CodeView *view) {
    Code new = {.view = *view};
    int is_copied = copy_text(m, view->file, &new.file) && copy_text(m, view->name, &new.name);
    if (is_copied) new.lines = copy_bytes(m, view->lines, &new.line_bytes);
    if (is_copied) is_copied = copy_loops(m, address, &new);
    char again[CODE_BYTES];
    CodeView now;
    /* Still the same object: then all that was copied belongs together. */
    is_copied = is_copied && copy_from(m, again, address, CODE_BYTES) && view_code(again, &now) && is_same_code(view, &now);
    if (!is_copied) { free_code(&new); return NONE; }
    new.contents = contents_of(&new);
    uint32_t number = code_with(t, new.contents);
    if (number != NONE) {
        free_code(&new);
        t->codes[number].view = *view;
    } else if (t->code_count < CODES_MAX) {
        number = t->code_count++;
        new.serial = ++t->serial;
        t->codes[number] = new;
        note_contents(t, number);
    } else { free_code(&new); return NONE; }
    set_address(t, number, address);
    return number;
}

/* ---- full tables --------------------------------------------------------------------------------------------- */

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double scale_at(const Tables *t, double now) { return exp2((now - t->origin) / RECENT_HALF_LIFE_SECONDS); }

/* A value that half of `count` scores lie below. */
static double middle_of(double *scores, uint32_t count) {
    qsort(scores, count, sizeof(double), compare_doubles);
    return scores[count / 2];
}

static double code_score(const Code *c, double scale) { return c->total + RECENT_WEIGHT * c->recent / scale; }
static double place_score(const Place *p, double scale) { return p->total + RECENT_WEIGHT * p->recent / scale; }

/* Keeps the larger half of the codes, if they are many; tells the new number of each old one. */
static void shrink_codes(Tables *t, double scale, double *scores, uint32_t *moved) {
    uint32_t kept = 0;
    double least = -1.0;
    for (uint32_t i = 0; i < t->code_count; i++) scores[i] = code_score(&t->codes[i], scale);
    if (t->code_count > CODES_MAX / 2) least = middle_of(scores, t->code_count);
    for (uint32_t i = 0; i < t->code_count; i++) {
        moved[i] = NONE;
        if (code_score(&t->codes[i], scale) <= least) { free_code(&t->codes[i]); continue; }
        moved[i] = kept;
        t->codes[kept++] = t->codes[i];
    }
    t->code_count = kept;
    memset(t->by_contents, 0, SLOTS * sizeof(uint32_t));
    for (uint32_t i = 0; i < kept; i++) note_contents(t, i);
    renew_addresses(t);
}

/* Drops the nodes of places that are gone: their seconds are their callers' own. */
static void shrink_nodes(Tables *t, const uint32_t *moved_place, uint32_t *moved) {
    uint32_t kept = 0;
    memset(t->by_node, 0, SLOTS * sizeof(uint32_t));
    for (uint32_t i = 0; i < t->node_count; i++) {
        Node node = t->nodes[i];
        uint32_t parent = node.parent == NONE ? NONE : moved[node.parent];
        moved[i] = parent;
        if (moved_place[node.place] == NONE) {
            if (parent != NONE) { t->nodes[parent].self += node.self; t->nodes[parent].waiting += node.waiting; }
            continue;
        }
        moved[i] = kept;
        t->nodes[kept] = (Node){parent, moved_place[node.place], node.self, node.waiting};
        note_node(t, kept++);
    }
    t->node_count = kept;
}

static void shrink_places(Tables *t, double scale, double *scores, const uint32_t *moved, uint32_t *moved_place) {
    uint32_t kept = 0;
    double least = -1.0;
    for (uint32_t i = 0; i < t->place_count; i++) scores[i] = place_score(&t->places[i], scale);
    if (t->place_count > PLACES_MAX / 2) least = middle_of(scores, t->place_count);
    memset(t->by_place, 0, SLOTS * sizeof(uint32_t));
    for (uint32_t i = 0; i < t->place_count; i++) {
        Place place = t->places[i];
        moved_place[i] = NONE;
        if (moved[place.code] == NONE || place_score(&place, scale) <= least) continue;
        place.code = moved[place.code];
        t->places[kept] = place;
        moved_place[i] = kept;
        note_place(t, kept++);
    }
    t->place_count = kept;
}

static void shrink_loops(Tables *t, const uint32_t *moved) {
    int kept = 0;
    for (int i = 0; i < t->loop_count; i++) {
        if (moved[t->loops[i].code] == NONE) continue;
        t->loops[kept] = t->loops[i];
        t->loops[kept].code = moved[t->loops[kept].code];
        kept++;
    }
    t->loop_count = kept;
    if (t->turn.code != NONE) t->turn.code = moved[t->turn.code];
}

/* Drops the smaller half of what is full.  Numbers change: paths that hold any must be forgotten. */
static int shrink_tables(Tables *t, double now) {
    double *scores = malloc(PLACES_MAX * sizeof(double)), scale = scale_at(t, now);
    uint32_t *moved = malloc(CODES_MAX * sizeof(uint32_t)), *places = malloc(PLACES_MAX * sizeof(uint32_t));
    uint32_t *nodes = malloc(NODES_MAX * sizeof(uint32_t));
    int is_done = scores && moved && places && nodes;
    if (is_done) {
        shrink_codes(t, scale, scores, moved);
        shrink_places(t, scale, scores, moved, places);
        shrink_nodes(t, places, nodes);
        shrink_loops(t, moved);
        t->log_used = 0;
        t->evictions++;
    }
    free(scores);
    free(moved);
    free(places);
    free(nodes);
    return is_done;
}

/* ---- samples ------------------------------------------------------------------------------------------------- */

/* Recent seconds are kept as seconds times 2^(age of the tables), so that only a new sample is touched. */
static double recent_scale(Tables *t, double now) {
    if (now - t->origin > RESCALE_HALF_LIVES * RECENT_HALF_LIFE_SECONDS) {
        double by = 1.0 / scale_at(t, now);
        for (uint32_t i = 0; i < t->code_count; i++) { t->codes[i].recent *= by; t->codes[i].recent_self *= by; }
        for (uint32_t i = 0; i < t->place_count; i++) t->places[i].recent *= by;
        t->recent *= by;
        t->origin = now;
    }
    return scale_at(t, now);
}

static int is_in_turn(const Tables *t, const Place *place) {
    return place->code == t->turn.code && place->unit >= t->turn.range.start && place->unit <= t->turn.range.end;
}

/* Adds the seconds of one stack to what is above the turn's frame. */
static void add_below_turn(Tables *t, const uint32_t *stack, int depth, double seconds) {
    int i = 0;
    while (i < depth && !is_in_turn(t, &t->places[stack[i]])) i++;
    if (i == depth) return;
    t->turn_seconds += seconds;
    for (; i < depth; i++) {
        Code *code = &t->codes[t->places[stack[i]].code];
        if (code->below_stamp == t->stamp) continue;
        code->below_stamp = t->stamp;
        code->below += seconds;
    }
}

static void log_stack(Tables *t, const uint32_t *stack, int depth, double seconds) {
    uint32_t needed = (uint32_t)depth + 2, from = 0;
    if (needed > LOG_WORDS) return;
    if (t->log_used + needed > LOG_WORDS) {
        while (from < t->log_used && (from < LOG_WORDS / 2 || t->log_used - from + needed > LOG_WORDS)) from += t->log[from] + 2;
        t->log_used -= from;
        memmove(t->log, t->log + from, t->log_used * sizeof(uint32_t));
    }
    float weight = (float)seconds;
    t->log[t->log_used] = (uint32_t)depth;
    memcpy(&t->log[t->log_used + 1], &weight, sizeof weight);
    memcpy(&t->log[t->log_used + 2], stack, (size_t)depth * sizeof(uint32_t));
    t->log_used += needed;
}

/* Another turn: seconds below it are counted anew, from the stacks that are still in the log. */
static void set_turn(Tables *t, Turn turn) {
    t->turn = turn;
    t->turn_seconds = 0.0;
    for (uint32_t i = 0; i < t->code_count; i++) t->codes[i].below = 0.0;
    for (uint32_t at = 0; turn.code != NONE && at < t->log_used; at += t->log[at] + 2) {
        float weight;
        memcpy(&weight, &t->log[at + 1], sizeof weight);
        t->stamp++;
        add_below_turn(t, &t->log[at + 2], (int)t->log[at], (double)weight);
    }
}

/* Adds one stack, outermost place first; its node in the call tree. */
static uint32_t add_sample(Tables *t, const uint32_t *stack, int depth, double cpu, double waiting, double now) {
    if (!depth) return NONE;
    Code *leaf = &t->codes[t->places[stack[depth - 1]].code];
    uint32_t node = node_of_stack(t, stack, depth);
    leaf->waiting += waiting;
    if (node != NONE) { t->nodes[node].waiting += waiting; t->nodes[node].self += cpu; }
    if (cpu <= 0.0) return node;
    double weighed = cpu * recent_scale(t, now);
    t->stamp++;
    t->samples++;
    t->recent += weighed;
    leaf->self += cpu;
    leaf->recent_self += weighed;
    for (int i = 0; i < depth; i++) {
        Place *place = &t->places[stack[i]];
        Code *code = &t->codes[place->code];
        if (place->stamp != t->stamp) { place->stamp = t->stamp; place->total += cpu; place->recent += weighed; }
        if (code->stamp != t->stamp) { code->stamp = t->stamp; code->total += cpu; code->recent += weighed; }
    }
    if (t->turn.code != NONE) add_below_turn(t, stack, depth, cpu);
    log_stack(t, stack, depth, cpu);
    return node;
}

/* ---- loops --------------------------------------------------------------------------------------------------- */

static Loop *loop_for(Tables *t, uint32_t code, Range range, unsigned long thread) {
    int least = 0;
    for (int i = 0; i < t->loop_count; i++) {
        Loop *loop = &t->loops[i];
        if (loop->code == code && loop->range.start == range.start && loop->range.end == range.end && loop->thread == thread)
            return loop;
        if (loop->turns < t->loops[least].turns || (loop->turns == t->loops[least].turns && loop->last_wall < t->loops[least].last_wall))
            least = i;
    }
    int number = t->loop_count < LOOPS_MAX ? t->loop_count++ : least;
    t->loops[number] = (Loop){.code = code, .range = range, .thread = thread};
    return &t->loops[number];
}

/* One turn of a loop was seen to end: its frame stays, and its place went back. */
static void add_turn(Loop *loop, uint64_t activation, int depth, double wall, uint64_t cpu) {
    if (loop->turns && loop->activation == activation) {
        loop->intervals += 1.0;
        loop->wall += wall - loop->last_wall;
        loop->cpu += (double)(cpu - loop->last_cpu) * 1e-9;
        if (loop->intervals > INTERVALS_MAX) { loop->intervals /= 2; loop->wall /= 2; loop->cpu /= 2; }
    }
    loop->turns++;
    loop->activation = activation;
    loop->depth = depth;
    loop->last_wall = wall;
    loop->last_cpu = cpu;
}
#endif
