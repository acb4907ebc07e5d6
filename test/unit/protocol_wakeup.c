/*
 * protocol_wakeup.c
 *	  No wake-up is lost between one who goes to sleep and one who publishes a word.
 *
 * Each round is the narrowest case: both start at the same moment, the sleeper raises its
 * flag and looks at the word, the waker raises the word and looks at the flag.  A wake-up
 * is lost if neither sees the other.  The rule of protocol.h is tried, and then the same
 * without its fences, which shows that the test would notice (on a machine with one core,
 * or one whose stores do not pass loads, it cannot, and says so).
 *
 * Then whole sleeps: a chain of requests and results over two words, each side sleeping on
 * a pipe unless it need not.  A lost wake-up ends it by the time limit.
 */
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "protocol/protocol.h"
#include "tap.h"

#define ROUNDS 200000
#define EXCHANGES 20000
#define LIMIT_MS 20000

/* ---- the narrowest case ---- */

static struct
{
	_Alignas(64) uint64_t word;
	_Alignas(64) uint32_t asleep;
	_Alignas(64) uint64_t round;	/* begun */
	_Alignas(64) uint64_t ended[2]; /* the round that each side has ended */
	_Alignas(64) int rang;			/* what the waker decided */
	int			slept;				/* what the sleeper decided */
	int			fenced;
}			race;

static void
wait_round(const uint64_t *word, uint64_t value)
{
	for (int i = 0; infer_load_acquire64(word) < value; i++)
		if (i > 1000)
			sched_yield();
}

static void *
sleeper(void *arg)
{
	(void) arg;
	for (uint64_t round = 1; round <= ROUNDS; round++)
	{
		wait_round(&race.round, round);
		infer_store_release32(&race.asleep, 1);
		if (race.fenced)
			infer_fence();
		race.slept = infer_load_acquire64(&race.word) < round;
		infer_store_release64(&race.ended[0], round);
	}
	return NULL;
}

static int
publish(uint64_t round)
{
	if (race.fenced)
		return infer_publish(&race.word, round, &race.asleep);
	infer_store_release64(&race.word, round);
	return infer_load_acquire32(&race.asleep) != 0;
}

static int
lost_wakeups(int fenced)
{
	pthread_t	thread;
	int			lost = 0;

	memset(&race, 0, sizeof(race));
	race.fenced = fenced;
	pthread_create(&thread, NULL, sleeper, NULL);
	for (uint64_t round = 1; round <= ROUNDS; round++)
	{
		infer_store_release32(&race.asleep, 0);
		infer_store_release64(&race.round, round);
		for (uint64_t i = 0; i < (round & 63); i++)	/* the other one needs a while to see it */
			__asm__ volatile("" ::: "memory");
		race.rang = publish(round);
		wait_round(&race.ended[0], round);
		lost += race.slept && !race.rang;
	}
	pthread_join(thread, NULL);
	return lost;
}

/* ---- whole sleeps ---- */

static struct side
{
	_Alignas(64) uint64_t word;		/* raised by the other */
	_Alignas(64) uint32_t asleep;
	int			bell[2];
}			sides[2];

static bool
wait_word(struct side *side, uint64_t value)
{
	struct pollfd poller = {.fd = side->bell[0],.events = POLLIN};
	char		byte;

	while (infer_load_acquire64(&side->word) < value)
	{
		infer_store_release32(&side->asleep, 1);
		infer_fence();
		if (infer_load_acquire64(&side->word) < value)
		{
			if (poll(&poller, 1, LIMIT_MS) != 1)
				return false;
			if (read(side->bell[0], &byte, 1) != 1)
				return false;
		}
		infer_store_release32(&side->asleep, 0);
	}
	return true;
}

static void
raise_word(struct side *side, uint64_t value)
{
	if (infer_publish(&side->word, value, &side->asleep) && write(side->bell[1], "", 1) != 1)
		tap_ok(false, "the bell rings");
}

static void *
answerer(void *arg)
{
	(void) arg;
	for (uint64_t i = 1; i <= EXCHANGES; i++)
	{
		if (!wait_word(&sides[1], i))
			return NULL;
		raise_word(&sides[0], i);
	}
	return &sides;
}

static void
test_exchanges(void)
{
	pthread_t	thread;
	void	   *ended;
	uint64_t	done = 0;

	if (pipe(sides[0].bell) != 0 || pipe(sides[1].bell) != 0)
	{
		tap_ok(false, "pipes can be made");
		return;
	}
	pthread_create(&thread, NULL, answerer, NULL);
	while (done < EXCHANGES)
	{
		raise_word(&sides[1], done + 1);
		if (!wait_word(&sides[0], done + 1))
			break;
		done++;
	}
	pthread_join(thread, &ended);
	tap_ok(done == EXCHANGES && ended != NULL, "%d exchanges with sleeps end", EXCHANGES);
}

int
main(void)
{
	int			lost = lost_wakeups(1);

	tap_ok(lost == 0, "no wake-up is lost in %d races (%d were)", ROUNDS, lost);
	lost = lost_wakeups(0);
	if (lost > 0)
		tap_ok(true, "without the fences %d of %d are", lost, ROUNDS);
	else
		tap_skip("without the fences some are lost", "this machine did not reorder");
	test_exchanges();
	return tap_done();
}
