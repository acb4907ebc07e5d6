/*
 * room.c
 *	  Regions, and memory under infer.payload_limit, that the session's own calls take from one
 *	  another.
 *
 * A session may have many calls at once: statements fill one batch while another is computed,
 * and nest.  One that waits until other sessions give memory back, while it holds some itself,
 * could wait for a session that waits for it.  So before a call waits for memory, those of the
 * same session that have ended give theirs back, and those in flight are waited for.
 *
 * Invariants
 *	- Who waits for another call here is not in flight itself: no two calls wait for each other.
 */
#include "postgres.h"

#include "internal.h"

bool
room_from_ended(const InferCall *call)
{
	bool		any = false;
	int			next = 0;
	InferCall  *other;

	while ((other = region_owner(&next)) != NULL)
	{
		if (other == call || !other->finished)
			continue;
		reply_keep(other);
		any = true;
	}
	return any;
}

bool
room_from_flight(const InferCall *call)
{
	int			next = 0;
	InferCall  *other;

	Assert(!call->sent);
	while ((other = region_owner(&next)) != NULL)
	{
		if (other != call && other->sent)
		{
			call_finish(other);
			return true;
		}
	}
	return false;
}
