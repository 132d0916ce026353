/* Sums over single precision in one pass over memory, in double; `sums.py` compiles and loads it.

   Lanes are independent, so that a compiler makes vectors of them without changing what is added to what. */
#include <math.h>
#include <stdint.h>

#define LANES 16
#define ROW 1024 /* Elements between two collections of the lanes: counts of a row fit 32 bits. */

struct sums {
    double low, high, total, squares, absolute, change, change_squares, largest;
    double zeros, small, odd; /* elements that are 0; others below `tiny`; that are not finite */
};

#define EACH for (int j = 0; j < LANES; j++)

/* `before`, if it is not NULL, is compared with `now`, and is `now` afterwards. */
void holter_sums(const float *now, float *before, int64_t count, float tiny, struct sums *found) {
    struct sums s = {INFINITY, -INFINITY, 0};
    for (int64_t begin = 0; begin < count; begin += ROW) {
        float low[LANES], high[LANES], largest[LANES] = {0};
        double total[LANES] = {0}, squares[LANES] = {0}, absolute[LANES] = {0};
        double change[LANES] = {0}, change_squares[LANES] = {0};
        int32_t zeros[LANES] = {0}, small[LANES] = {0}, odd[LANES] = {0};
        EACH low[j] = INFINITY, high[j] = -INFINITY;
        int64_t end = count - begin < ROW ? count : begin + ROW, whole = end - (end - begin) % LANES;
#define ADD(j, x)                                                                                                      \
    do {                                                                                                               \
        float v_ = (x), m_ = fabsf(v_);                                                                                \
        low[j] = v_ < low[j] ? v_ : low[j];                                                                            \
        high[j] = v_ > high[j] ? v_ : high[j];                                                                         \
        total[j] += v_;                                                                                                \
        squares[j] += (double)v_ * v_;                                                                                 \
        absolute[j] += m_;                                                                                             \
        zeros[j] += m_ == 0;                                                                                           \
        small[j] += m_ < tiny;                                                                                         \
        odd[j] += !(m_ < INFINITY);                                                                                    \
    } while (0)
#define COMPARE(j, i)                                                                                                  \
    do {                                                                                                               \
        float d_ = fabsf(now[i] - before[i]);                                                                          \
        before[i] = now[i];                                                                                            \
        largest[j] = d_ > largest[j] ? d_ : largest[j];                                                                \
        change[j] += d_;                                                                                               \
        change_squares[j] += (double)d_ * d_;                                                                          \
    } while (0)
        if (before)
            for (int64_t i = begin; i < whole; i += LANES) EACH {
                ADD(j, now[i + j]);
                COMPARE(j, i + j);
            }
        else
            for (int64_t i = begin; i < whole; i += LANES) EACH ADD(j, now[i + j]);
        for (int64_t i = whole; i < end; i++) {
            ADD(0, now[i]);
            if (before) COMPARE(0, i);
        }
        EACH {
            s.low = low[j] < s.low ? low[j] : s.low;
            s.high = high[j] > s.high ? high[j] : s.high;
            s.largest = largest[j] > s.largest ? largest[j] : s.largest;
            s.total += total[j], s.squares += squares[j], s.absolute += absolute[j];
            s.change += change[j], s.change_squares += change_squares[j];
            s.zeros += zeros[j], s.small += small[j] - zeros[j], s.odd += odd[j];
        }
    }
    *found = s;
}
