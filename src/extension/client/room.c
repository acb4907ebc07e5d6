/*
 * room.c
 *	  Regions, and memory under infer.payload_limit, that the session's own calls take from one
 *	  another.
 *
 * A session may have many calls at once: statements fill one batch while another is computed,
 * and nest.  One that waits until other sessions give memory back, while it holds some itself,
 * could wait for a session that waits for it.  So before a call waits for memory, those of the
 * same session that have ended give theirs back, those that were submitted are waited for, and those
 * that are being filled take back what the engine has a hold of (a region that was used before).
 *
 * Invariants
 *	- Nobody waits here for a call that waits already: no two calls wait for each other.
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
room_from_submitted(const InferCall *call)
{
	int			next = 0;
	InferCall  *other;

	Assert(!call->sent);
	while ((other = region_owner(&next)) != NULL)
	{
		if (other == call || other->finished || !other->submitted || other->waiting)
			continue;
		call_finish(other);
		return true;
	}
	return false;
}

bool
room_from_filled(const InferCall *call)
{
	bool		any = false;
	int			next = 0;
	InferCall  *other;

	while ((other = region_owner(&next)) != NULL)
		if (other != call && !other->submitted)
			any |= region_detach(other->region, other->used);
	return any;
}
