/*
 * party.cc
 *	  What threads of a block wait for: each other, at a barrier or in a warp.
 *
 * Loop: a thread says where it waits, and for whom; the last one to arrive gives all what is theirs, and makes them ready.
 *
 * Invariant: a party meets in one place of the source; if it does not, that is reported and the block has failed.
 */
#include "thread.h"

static void
wait_at(emulation_place place, enum waiting waits)
{
	block.threads[block.current].place = place;
	block.threads[block.current].waits = waits;
}

static bool
same_place(emulation_place a, emulation_place b)
{
	return a.line == b.line && (a.file == b.file || strcmp(a.file, b.file) == 0);
}

static void
report_places(const char *what, emulation_place a, emulation_place b)
{
	emulation_report("%s: %s of one block: some wait at %s:%d, others at %s:%d", emulation_name(block.kernel->function), what,
					 a.file, a.line, b.file, b.line);
	block.failed = true;
}

int
emulation_barrier(emulation_place place, int predicate)
{
	unsigned	self = block.current;

	if (block.arrived == 0)
		block.votes = 0;
	block.arrived++;
	block.votes += predicate;
	wait_at(place, WAITS_BLOCK);
	if (block.arrived < block.count)
	{
		thread_wait();
		return block.result;
	}
	block.arrived = 0;
	block.result = block.votes;
	for (unsigned t = 0; t < block.count; t++)
	{
		if (!same_place(place, block.threads[t].place))
		{
			report_places("threads", block.threads[t].place, place);
			thread_wait();
		}
		if (t != self)
			thread_ready(t);
	}
	/* who came last goes first no more often than others */
	thread_ready(self);
	thread_wait();
	return block.result;
}

static uint64_t
shuffled(const thread *lanes, unsigned lane)
{
	const thread *self = &lanes[lane];
	int			width = self->width;
	int			base = (int) lane & ~(width - 1);
	int			from = (int) lane;

	switch (self->kind)
	{
		case EMULATION_SHUFFLE_INDEX:
			from = base + (self->by & (width - 1));
			break;
		case EMULATION_SHUFFLE_UP:
			from = (int) lane - self->by < base ? from : from - self->by;
			break;
		case EMULATION_SHUFFLE_DOWN:
			from = (int) lane + self->by >= base + width ? from : from + self->by;
			break;
		case EMULATION_SHUFFLE_XOR:
			from = (from ^ self->by) >= base + width ? from : from ^ self->by;
			break;
	}
	/* what a lane has that does not take part is not defined */
	return from >= 0 && self->mask >> from & 1 ? lanes[from].value : UINT64_MAX;
}

/* All lanes of the mask are there: each gets what is its own. */
static void
warp_finish(unsigned warp, unsigned mask)
{
	thread	   *lanes = &block.threads[warp * WARP];
	uint64_t	results[WARP];
	unsigned	votes = 0;

	for (unsigned lane = 0; lane < WARP; lane++)
		if (mask >> lane & 1 && lanes[lane].kind == -2 && lanes[lane].value != 0)
			votes |= 1u << lane;
	for (unsigned lane = 0; lane < WARP; lane++)
		if (mask >> lane & 1)
			results[lane] = lanes[lane].kind >= 0 ? shuffled(lanes, lane) : votes;
	for (unsigned lane = 0; lane < WARP; lane++)
		if (mask >> lane & 1)
		{
			lanes[lane].value = results[lane];
			thread_ready(warp * WARP + lane);
		}
	block.lanes[warp] &= ~mask;
}

/* A lane's part in what its warp does together; returns what it gets. */
static uint64_t
warp_meet(emulation_place place, int kind, unsigned mask, uint64_t value, int by, int width)
{
	unsigned	self = block.current;
	unsigned	warp = self / WARP;
	unsigned	lane = self % WARP;
	thread	   *lanes = &block.threads[warp * WARP];

	lanes[lane].mask = mask;
	lanes[lane].kind = kind;
	lanes[lane].value = value;
	lanes[lane].by = by;
	lanes[lane].width = width;
	wait_at(place, WAITS_WARP);
	block.lanes[warp] |= 1u << lane;
	if (!(mask >> lane & 1))
	{
		emulation_report("%s: lane %u is not in the mask %08x of its warp at %s:%d", emulation_name(block.kernel->function),
						 lane, mask, place.file, place.line);
		block.failed = true;
	}
	else if ((block.lanes[warp] & mask) == mask)
	{
		for (unsigned other = 0; other < WARP && !block.failed; other++)
			if (mask >> other & 1 && (!same_place(place, lanes[other].place) || lanes[other].mask != mask))
				report_places("lanes of a warp", lanes[other].place, place);
		if (!block.failed)
			warp_finish(warp, mask);
	}
	thread_wait();
	return block.threads[self].value;
}

void
emulation_warp(emulation_place place, unsigned mask)
{
	warp_meet(place, -1, mask, 0, 0, WARP);
}

unsigned
emulation_ballot(emulation_place place, unsigned mask, int predicate)
{
	return (unsigned) warp_meet(place, -2, mask, predicate != 0, 0, WARP);
}

uint64_t
emulation_shuffle(emulation_place place, int kind, unsigned mask, uint64_t value, int by, int width)
{
	return warp_meet(place, kind, mask, value, by, width);
}
