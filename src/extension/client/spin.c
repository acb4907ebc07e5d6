/*
 * spin.c
 *	  Watching for a result instead of sleeping: whether, how long, and with what success.
 *
 * Nouns
 *	prediction	how long a key's recent calls took in the engine: whether spinning is worth it
 *	in vain		watched to the end, and the result was not there
 *
 * Loop
 *	spin_nsec says at a call's sending how long to watch; spin_for_result watches, and learns
 *	whether a core is free; spin_learn_time learns from the reply how long the engine took.
 */
#include "postgres.h"

#include "internal.h"

#include <sched.h>

#include "miscadmin.h"

#define SPIN_SLACK 10000			/* nsec beyond the prediction */
#define SPIN_PAUSE_MIN 1000000		/* nsec without spinning after it was in vain; doubles */
#define SPIN_PAUSE_MAX 100000000

/* ---- predictions ---- */

typedef struct Prediction
{
	uint64		key;				/* its first bytes */
	uint64		nsec;				/* in the engine; 0: not known, so worth a try */
} Prediction;

static Prediction predictions[64];

static Prediction *
prediction_of(const uint8 *key)
{
	uint64		word;
	Prediction *p;

	memcpy(&word, key, sizeof(word));
	p = &predictions[word % lengthof(predictions)];
	if (p->key != word)
		*p = (Prediction) {.key = word};
	return p;
}

void
spin_learn_time(const uint8 *key, uint64 nsec)
{
	Prediction *p = prediction_of(key);

	p->nsec = p->nsec == 0 ? nsec : (3 * p->nsec + nsec) / 4;
}

/* Processors that this process may run on. */
static int
usable_cores(void)
{
	static int	cores = 0;
	cpu_set_t	set;

	if (cores == 0)
		cores = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
	return cores;
}

/*
 * Spinning in vain says that no core is free, whatever the counts say: then none is spent
 * for a while.
 */
static struct
{
	uint64		pause;				/* nsec; 0: the last time was not in vain */
	uint64		not_before;			/* nsec */
}			spin_history;

/*
 * How long to watch for the result, in nsec: not if the engine must be woken, nor if the
 * result is not expected within infer.spin_time, nor without a free core: the engine has
 * one for each request, and ours comes on top of those that are there.
 */
uint64
spin_nsec(const InferCall *call, bool awake)
{
	uint64		spin = (uint64) infer_spin_time * 1000;
	uint64		predicted = prediction_of(call->model->key)->nsec;

	if (!awake || predicted > spin ||
		(int) infer_load_acquire32(&connection.page->requests) + 1 >= usable_cores() ||
		(spin_history.pause > 0 && clock_nsec() < spin_history.not_before))
		return 0;
	return predicted == 0 ? spin : Min(spin, 2 * predicted + SPIN_SLACK);
}

static void
spin_learn(bool in_vain)
{
	if (!in_vain)
	{
		spin_history.pause = 0;
		return;
	}
	spin_history.pause = Min(Max(2 * spin_history.pause, SPIN_PAUSE_MIN), SPIN_PAUSE_MAX);
	spin_history.not_before = clock_nsec() + spin_history.pause;
}

bool
spin_for_result(const InferCall *call)
{
	uint64		end = clock_nsec() + call->spin;
	bool		done;

	do
	{
		for (int i = 0; i < 16 && !(done = region_is_done(call->region)); i++)
			infer_pause();
	} while (!done && !InterruptPending && clock_nsec() < end);
	spin_learn(!done);
	return done;
}
