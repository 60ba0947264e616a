/* Hash tables of the gatherer: open addressing, linear probing. */
#include "gather.h"

/* ---- Index: a power of two slots, at most half full --------------------------------------------------------- */

static inline size_t slot_of(const Index *t, uint64_t key) { return (size_t)mixed(key) & (t->room - 1); }

uint32_t index_find(const Index *t, uint64_t key) {
    if (!t->room) return NONE;
    for (size_t i = slot_of(t, key); t->key[i]; i = (i + 1) & (t->room - 1))
        if (t->key[i] == key) return t->at[i];
    return NONE;
}

static void index_place(Index *t, uint64_t key, uint32_t at) {
    size_t i = slot_of(t, key);
    while (t->key[i] && t->key[i] != key) i = (i + 1) & (t->room - 1);
    if (!t->key[i]) t->n++;
    t->key[i] = key; t->at[i] = at;
}

int index_put(Index *t, uint64_t key, uint32_t at) {
    if (2 * (t->n + 1) > t->room) {
        Index bigger = {NULL, NULL, t->room ? 2 * t->room : 64, 0};
        bigger.key = calloc(bigger.room, sizeof *bigger.key);
        bigger.at = malloc(bigger.room * sizeof *bigger.at);
        if (!bigger.key || !bigger.at) { index_clear(&bigger); PyErr_NoMemory(); return -1; }
        for (size_t i = 0; i < t->room; i++)
            if (t->key[i]) index_place(&bigger, t->key[i], t->at[i]);
        index_clear(t);
        *t = bigger;
    }
    index_place(t, key, at);
    return 0;
}

void index_clear(Index *t) {
    free(t->key); free(t->at);
    memset(t, 0, sizeof *t);
}

/* ---- Sums: grows by a fifth, so that a slot of 16 bytes costs at most 24 ------------------------------------ */

static inline size_t range(uint64_t hash, size_t room) { return (size_t)(((hash >> 32) * (uint64_t)room) >> 32); }

static void sums_place(Sums *t, uint64_t key, uint64_t amount) {
    size_t i = range(mixed(key), t->room);
    while (t->slot[i].key && t->slot[i].key != key) i = i + 1 < t->room ? i + 1 : 0;
    if (!t->slot[i].key) { t->slot[i].key = key; t->n++; }
    t->slot[i].sum += amount;
}

int sums_add(Sums *t, uint64_t key, uint64_t amount) { /* the key is not 0 */
    if (10 * (t->n + 1) > 8 * t->room) {
        Sums bigger = {NULL, t->room < 64 ? 64 : t->room + t->room / 5, 0};
        bigger.slot = calloc(bigger.room, sizeof *bigger.slot);
        if (!bigger.slot) { PyErr_NoMemory(); return -1; }
        for (size_t i = 0; i < t->room; i++)
            if (t->slot[i].key) sums_place(&bigger, t->slot[i].key, t->slot[i].sum);
        free(t->slot);
        *t = bigger;
    }
    sums_place(t, key, amount);
    return 0;
}

void sums_clear(Sums *t) {
    free(t->slot);
    memset(t, 0, sizeof *t);
}

/* ---- Set ---------------------------------------------------------------------------------------------------- */

static void set_place(Set *t, uint32_t element) {
    uint32_t i = (element * 2654435769u) & (t->room - 1);
    while (t->slot[i] != NONE && t->slot[i] != element) i = (i + 1) & (t->room - 1);
    if (t->slot[i] == NONE) { t->slot[i] = element; t->n++; }
}

int set_add(Set *t, uint32_t element) {
    if (4 * (t->n + 1) > 3 * t->room) {
        Set bigger = {NULL, t->room ? 2 * t->room : 4, 0};
        bigger.slot = malloc(bigger.room * sizeof *bigger.slot);
        if (!bigger.slot) { PyErr_NoMemory(); return -1; }
        memset(bigger.slot, 0xff, bigger.room * sizeof *bigger.slot);
        for (uint32_t i = 0; i < t->room; i++)
            if (t->slot[i] != NONE) set_place(&bigger, t->slot[i]);
        free(t->slot);
        *t = bigger;
    }
    set_place(t, element);
    return 0;
}

void *grown(void *array, size_t n, size_t *room, size_t size) {
    if (n < *room) return array;
    size_t wanted = *room ? *room + *room / 2 : 16;
    void *bigger = realloc(array, wanted * size);
    if (!bigger) { PyErr_NoMemory(); return NULL; }
    *room = wanted;
    return bigger;
}
