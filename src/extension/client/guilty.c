/*
 * guilty.c
 *	  Which models are disabled because their rows kept ending the engine.
 *
 * Nouns
 *	guilty		an InferGuilty in shared memory: a model's key, and the inputs that ended an
 *				engine within the last INFER_GUILTY_WINDOW seconds
 *
 * Invariants
 *	- A model is disabled by INFER_GUILTY_TIMES different inputs within the window and
 *	  stays so until infer.load_model forgives it, or the server restarts.
 *	- infer_shared->lock protects all but guilty_count, which is looked at without it: a
 *	  call costs nothing here as long as nobody is guilty.
 */
#include "postgres.h"

#include "internal.h"

#include "utils/timestamp.h"

static InferGuilty *
find(const uint8 *key)
{
	for (int i = 0; i < infer_shared->guilty_count; i++)
		if (memcmp(infer_shared->guilty[i].key, key, INFER_KEY_BYTES) == 0)
			return &infer_shared->guilty[i];
	return NULL;
}

bool
guilty_is_disabled(const uint8 *key)
{
	InferGuilty *guilty;
	bool		disabled;

	if (*(volatile int *) &infer_shared->guilty_count == 0)
		return false;
	LWLockAcquire(infer_shared->lock, LW_SHARED);
	guilty = find(key);
	disabled = guilty != NULL && guilty->disabled;
	LWLockRelease(infer_shared->lock);
	return disabled;
}

static TimestampTz
last_time(const InferGuilty *guilty)
{
	TimestampTz last = 0;

	for (int i = 0; i < guilty->count; i++)
		last = Max(last, guilty->times[i]);
	return last;
}

static void
remove_entry(InferGuilty *guilty)
{
	infer_shared->guilty_count--;
	*guilty = infer_shared->guilty[infer_shared->guilty_count];
}

/* A new entry; when the table is full, the one that was guilty longest ago makes room. */
static InferGuilty *
add(const uint8 *key)
{
	InferGuilty *guilty;

	if (infer_shared->guilty_count == INFER_GUILTY_MAX)
	{
		InferGuilty *oldest = &infer_shared->guilty[0];

		for (int i = 1; i < INFER_GUILTY_MAX; i++)
		{
			InferGuilty *other = &infer_shared->guilty[i];

			if ((oldest->disabled && !other->disabled) ||
				(oldest->disabled == other->disabled && last_time(other) < last_time(oldest)))
				oldest = other;
		}
		remove_entry(oldest);
	}
	guilty = &infer_shared->guilty[infer_shared->guilty_count++];
	memset(guilty, 0, sizeof(*guilty));
	memcpy(guilty->key, key, INFER_KEY_BYTES);
	return guilty;
}

static void
forget_old(InferGuilty *guilty, TimestampTz now)
{
	int			kept = 0;

	for (int i = 0; i < guilty->count; i++)
	{
		if (TimestampDifferenceExceeds(guilty->times[i], now, INFER_GUILTY_WINDOW * 1000))
			continue;
		guilty->inputs[kept] = guilty->inputs[i];
		guilty->times[kept] = guilty->times[i];
		kept++;
	}
	guilty->count = kept;
}

/* The same input again is no news. */
static void
add_input(InferGuilty *guilty, uint64 input, TimestampTz now)
{
	for (int i = 0; i < guilty->count; i++)
	{
		if (guilty->inputs[i] == input)
		{
			guilty->times[i] = now;
			return;
		}
	}
	guilty->inputs[guilty->count] = input;
	guilty->times[guilty->count] = now;
	guilty->count++;
	if (guilty->count == INFER_GUILTY_TIMES)
		guilty->disabled = true;
}

void
guilty_record(const uint8 *key, uint64 input)
{
	TimestampTz now = GetCurrentTimestamp();
	InferGuilty *guilty;

	LWLockAcquire(infer_shared->lock, LW_EXCLUSIVE);
	guilty = find(key);
	if (guilty == NULL)
		guilty = add(key);
	if (!guilty->disabled)
	{
		forget_old(guilty, now);
		add_input(guilty, input, now);
	}
	LWLockRelease(infer_shared->lock);
}

/* Loading the model, without any row, has ended an engine time and again. */
void
guilty_record_load(const uint8 *key, uint64 engine)
{
	InferGuilty *guilty;

	guilty_record(key, engine);
	LWLockAcquire(infer_shared->lock, LW_EXCLUSIVE);
	guilty = find(key);
	if (guilty != NULL)
		guilty->ended_load = true;
	LWLockRelease(infer_shared->lock);
}

bool
infer_client_is_suspect(const InferModel *model)
{
	InferGuilty *guilty;
	bool		suspect;

	LWLockAcquire(infer_shared->lock, LW_SHARED);
	guilty = find(model->key);
	suspect = guilty != NULL && (guilty->disabled || guilty->ended_load);
	LWLockRelease(infer_shared->lock);
	return suspect;
}

void
guilty_forgive(const uint8 *key)
{
	InferGuilty *guilty;

	LWLockAcquire(infer_shared->lock, LW_EXCLUSIVE);
	guilty = find(key);
	if (guilty != NULL)
		remove_entry(guilty);
	LWLockRelease(infer_shared->lock);
}
