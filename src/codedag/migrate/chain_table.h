/* The table of a chain, computed: the chain's own operations, one after the other, on all 256 values of a byte.
 *
 * Only + - * /, square roots, signs, bounds and casts of float32 and float64 are here: one rounding each, which IEEE 754
 * fixes, so that the bits are those of numpy and torch.  Whatever numpy would warn about, and whatever is up to the
 * machine (NaN, zeros of two signs, casts out of range), ends it: the chain then runs as ever.
 */
#include <fenv.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

enum { BYTE, SINGLE, DOUBLE };
enum { CAST, ADD, SUB, RSUB, MUL, DIV, RDIV, LEAST, MOST, NEG, ABS, ROOT, SQUARE };
enum { MOST_ROWS = 16, MOST_OPS = 32, MOST_VALUES = 256 };

typedef struct { int code, type, source; double value; } Op; /* source: the parameter that is taken, or -1: value */
typedef struct { int start, count; } Slot;                    /* where the numbers of a parameter are, and how many */

#define EACH(text) for (int i = 0; i < 256; i++) { text; } break
#define STEPS(T, ROOT_OF)                                                                                        \
    static int step_##T(int code, T *x, T v) {                                                                   \
        int bad = 0;                                                                                             \
        switch (code) {                                                                                          \
        case ADD: EACH(x[i] = x[i] + v);                                                                         \
        case SUB: EACH(x[i] = x[i] - v);                                                                         \
        case RSUB: EACH(x[i] = v - x[i]);                                                                        \
        case MUL: EACH(x[i] = x[i] * v);                                                                         \
        case DIV: EACH(x[i] = x[i] / v);                                                                         \
        case RDIV: EACH(x[i] = v / x[i]);                                                                        \
        case LEAST: EACH(bad |= x[i] == 0 && v == 0 && signbit(x[i]) != signbit(v); x[i] = x[i] > v ? x[i] : v); \
        case MOST: EACH(bad |= x[i] == 0 && v == 0 && signbit(x[i]) != signbit(v); x[i] = x[i] < v ? x[i] : v);  \
        case NEG: EACH(x[i] = -x[i]);                                                                            \
        case ABS: EACH(x[i] = x[i] < 0 ? -x[i] : x[i] == 0 ? 0 : x[i]);                                          \
        case ROOT: EACH(x[i] = ROOT_OF(x[i]));                                                                   \
        case SQUARE: EACH(x[i] = x[i] * x[i]);                                                                   \
        default: break;                                                                                          \
        }                                                                                                        \
        return !bad;                                                                                             \
    }
STEPS(float, sqrtf)
STEPS(double, sqrt)

typedef struct { int type; float f[256]; double d[256]; } Row; /* a byte is held as the float that it becomes */

static int as_type(Row *r, int type) {
    if (r->type == type) return 1;
    if (type == DOUBLE) {
        for (int i = 0; i < 256; i++) r->d[i] = r->f[i];
    } else if (r->type == DOUBLE) {
        if (type == BYTE)
            for (int i = 0; i < 256; i++) { if (!(r->d[i] > -1 && r->d[i] < 256)) return 0; r->f[i] = (uint8_t)r->d[i]; }
        else
            for (int i = 0; i < 256; i++) r->f[i] = (float)r->d[i];
    } else if (type == BYTE) {
        for (int i = 0; i < 256; i++) { if (!(r->f[i] > -1 && r->f[i] < 256)) return 0; r->f[i] = (uint8_t)r->f[i]; }
    }
    r->type = type;
    return 1;
}

static int one_row(const Op *ops, int count, const Slot *slots, const double *values, int at, Row *r) {
    for (int i = 0; i < 256; i++) r->f[i] = (float)i;
    r->type = BYTE;
    for (int k = 0; k < count; k++) {
        const Op *o = &ops[k];
        if (!as_type(r, o->type)) return 0;
        if (o->code == CAST) continue;
        double v = o->value;
        if (o->source >= 0) v = values[slots[o->source].start + (slots[o->source].count > 1 ? at : 0)];
        if (v != v) return 0;
        if (!(o->type == DOUBLE ? step_double(o->code, r->d, v) : step_float(o->code, r->f, (float)v))) return 0;
    }
    return 1;
}

static int write_row(const Row *r, char *out) {
    if (r->type == DOUBLE) {
        for (int i = 0; i < 256; i++) if (r->d[i] != r->d[i]) return 0;
        memcpy(out, r->d, sizeof r->d);
        return 1;
    }
    for (int i = 0; i < 256; i++) if (r->f[i] != r->f[i]) return 0;
    if (r->type == SINGLE) memcpy(out, r->f, sizeof r->f);
    else for (int i = 0; i < 256; i++) ((uint8_t *)out)[i] = (uint8_t)r->f[i];
    return 1;
}

static const int size_of[] = {1, 4, 8};

/* Fills a table of some rows; 0 if it must be made in another way.  Needs no interpreter. */
static int fill_table(const Op *ops, int count, const Slot *slots, const double *values, int rows, char *table) {
    Row row;
    int fine = 1;
    feclearexcept(FE_ALL_EXCEPT);
    for (int at = 0; fine && at < rows; at++)
        fine = one_row(ops, count, slots, values, at, &row) && write_row(&row, table + (size_t)at * 256 * size_of[row.type]);
    return fine && !fetestexcept(FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW | FE_UNDERFLOW);
}
