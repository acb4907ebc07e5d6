/*
 * random.h
 *	  Random numbers that are the same in every run: xorshift64 (Marsaglia, "Xorshift RNGs", 2003) with shifts 13, 7, 17.
 *
 * A program draws from a state of its own, or from the one that all of its tests share.
 */
#ifndef TEST_RANDOM_H
#define TEST_RANDOM_H

#include <stdint.h>

#define RANDOM_SEED		88172645463325252u

/* The state must not be 0, and never becomes it. */
static inline uint64_t
random_next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static uint64_t random_state = RANDOM_SEED;

static inline uint64_t
next_random(void)
{
	return random_next(&random_state);
}

#endif /* TEST_RANDOM_H */
