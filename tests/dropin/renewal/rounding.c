// A new thread has the floating-point environment of its creator, not of the last thread, in SSE
// and x87; that of a thread survives its suspensions.
#include "../check.h"
#include <fenv.h>
#include <sched.h>

static volatile double one = 1, three = 3;
static volatile long double wide_one = 1, wide_three = 3;

static double third(int rounding) {
    int kept = fegetround();
    EQUAL(fesetround(rounding), 0);
    double result = one / three;
    EQUAL(fesetround(kept), 0);
    return result;
}

static void is_rounding(int rounding) {
    EQUAL(fegetround(), rounding);
    double up = third(FE_UPWARD), down = third(FE_DOWNWARD), now = one / three;
    CHECK(up > down);
    if (rounding == FE_UPWARD) CHECK(now == up);
    if (rounding == FE_DOWNWARD) CHECK(now == down);
    long double wide = wide_one / wide_three;
    if (rounding == FE_UPWARD) CHECK(wide * wide_three >= wide_one);
}

static void *spoil(UNUSED void *argument) {
    EQUAL(fesetround(FE_UPWARD), 0);
    feraiseexcept(FE_DIVBYZERO);
    sched_yield();
    is_rounding(FE_UPWARD);
    pause_ms(1);
    is_rounding(FE_UPWARD);
    return NULL;
}

static void *inspect(UNUSED void *argument) {
    is_rounding(FE_TONEAREST);
    sched_yield();
    is_rounding(FE_TONEAREST);
    return NULL;
}

static void *inherits(UNUSED void *argument) {
    is_rounding(FE_DOWNWARD);
    return NULL;
}

int main(void) {
    spoil_and_inspect(spoil, inspect);
    EQUAL(fesetround(FE_DOWNWARD), 0);
    spoil_and_inspect(spoil, inherits);
    is_rounding(FE_DOWNWARD);
    return 0;
}
