/*
 * measured.c
 *	  How long a row of each model takes on the device, as replies tell it: kept in shared memory,
 *	  where the planner finds it.
 *
 * Nouns
 *	time		nsec of a row: of one that was computed alone, or of one of many (request of several rows)
 *	estimate	of a time, by this session; it falls by half of the difference, and rises by a
 *				sixteenth: a busy machine makes times longer, never shorter
 *	published	what this session last wrote of it
 *
 * Loop
 *	Each reply moves the session's own estimate.  It is published when it has moved by an eighth, and
 *	every now and then: so many sessions that call one model do not pass a cache line around.
 *
 * Invariants
 *	- Whoever finds a model's entry reads and writes its times without a lock.  The entry may be
 *	  given to another model meanwhile: a time carries 16 bits of the model's key, and is not
 *	  known to a model with others.
 *	- A new model takes the lock.  Times are for costs alone: what is lost is measured again.
 */
#include "postgres.h"

#include "internal.h"

#include "utils/timestamp.h"

#define MANY_ROWS		16			/* a request of fewer can only lower what is known of many */
#define PUBLISH_EVERY	256			/* replies */
#define SET_MODELS		4			/* entries that a model can have; the one unused for longest makes room */
#define NSEC_BITS		48
#define NSEC_MASK		((UINT64CONST(1) << NSEC_BITS) - 1)

typedef struct Estimate				/* of one model, by this session */
{
	uint64		model;
	uint64		nsec[INFER_ROW_TIMES];	/* 0: not known */
	uint64		published[INFER_ROW_TIMES];
	uint32		replies;
} Estimate;

static Estimate estimates[64];

static uint64
model_of(const uint8 *key)
{
	uint64		word;

	memcpy(&word, key, sizeof(word));
	return word != 0 ? word : 1;
}

/* ---- shared memory ---- */

static uint64
tag_of(uint64 model)
{
	return model << NSEC_BITS;
}

static InferMeasured *
set_of(uint64 model)
{
	return &infer_shared->measured[(model >> 32) % (INFER_MEASURED_MAX / SET_MODELS) * SET_MODELS];
}

static InferMeasured *
find(uint64 model)
{
	InferMeasured *set = set_of(model);

	for (int i = 0; i < SET_MODELS; i++)
		if (pg_atomic_read_u64(&set[i].model) == model)
			return &set[i];
	return NULL;
}

static void
note_use(InferMeasured *measured)
{
	pg_atomic_write_u32(&measured->used, (uint32) (GetCurrentTimestamp() / USECS_PER_SEC));
}

static InferMeasured *
add(uint64 model)
{
	InferMeasured *set = set_of(model);
	InferMeasured *measured;

	LWLockAcquire(infer_shared->lock, LW_EXCLUSIVE);
	measured = find(model);
	if (measured == NULL)
	{
		measured = &set[0];
		for (int i = 1; i < SET_MODELS; i++)
			if (pg_atomic_read_u32(&set[i].used) < pg_atomic_read_u32(&measured->used))
				measured = &set[i];
		for (int time = 0; time < INFER_ROW_TIMES; time++)
			pg_atomic_write_u64(&measured->nsec[time], 0);
		note_use(measured);
		pg_atomic_write_u64(&measured->model, model);
	}
	LWLockRelease(infer_shared->lock);
	return measured;
}

static uint64
read_time(InferMeasured *measured, uint64 model, int which)
{
	uint64		word = pg_atomic_read_u64(&measured->nsec[which]);

	return (word & ~NSEC_MASK) == tag_of(model) ? word & NSEC_MASK : 0;
}

static void
publish(Estimate *estimate, int which)
{
	InferMeasured *measured = find(estimate->model);
	uint64		nsec = estimate->nsec[which];
	uint64		known;

	if (measured == NULL)
		measured = add(estimate->model);
	known = read_time(measured, estimate->model, which);
	if (known != 0)
		nsec = known / 2 + nsec / 2 + 1;
	pg_atomic_write_u64(&measured->nsec[which], tag_of(estimate->model) | Min(nsec, NSEC_MASK));
	note_use(measured);
	estimate->published[which] = estimate->nsec[which];
}

uint64
infer_client_row_nsec(const uint8 *key, int which)
{
	uint64		model = model_of(key);
	InferMeasured *measured = infer_shared != NULL ? find(model) : NULL;

	return measured != NULL ? read_time(measured, model, which) : 0;
}

/* ---- this session ---- */

static Estimate *
estimate_of(uint64 model)
{
	Estimate   *estimate = &estimates[model % lengthof(estimates)];

	if (estimate->model != model)
		*estimate = (Estimate) {.model = model};
	return estimate;
}

static void
learn(Estimate *estimate, int which, uint64 nsec, bool may_raise)
{
	uint64		old = estimate->nsec[which];
	uint64		now = nsec;

	if (old != 0 && nsec < old)
		now = nsec + (old - nsec) / 2;
	else if (old != 0)
		now = may_raise ? old + (nsec - old) / 16 : old;
	estimate->nsec[which] = now;

	old = estimate->published[which];
	if ((now > old ? now - old : old - now) > old / 8 || estimate->replies % PUBLISH_EVERY == 0)
		publish(estimate, which);
}

void
measured_learn(const InferCall *call)
{
	const struct infer_reply *reply = &call->reply;
	uint32		rows = call->rows_sent;
	uint32		batch_rows = rows;
	Estimate   *estimate;

	/* in the time of a single batch there may be others' rows */
	if (reply->batches == 1)
		batch_rows = Max(reply->batch_rows, rows);
	if (call->marked || reply->batches == 0 || reply->rows_failed > 0)
		return;
	estimate = estimate_of(model_of(call->model->key));
	estimate->replies++;
	if (reply->batches >= batch_rows)
		learn(estimate, INFER_ROW_ALONE, reply->compute_nsec / batch_rows + 1, true);
	if (rows > 1)
		learn(estimate, INFER_ROW_OF_MANY, reply->compute_nsec / batch_rows + 1, rows >= MANY_ROWS);
}
