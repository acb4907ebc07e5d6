/*
 * batch_policy.c
 *	  The policy of scheduler/batch.c on a virtual clock: a table of arrivals, and the
 *	  batches that must come of them.  batch_stress.c has what no table can.
 *
 * A step is "TIME WORD …":
 *	push R M ROWS [class=C] [deadline=T] [marked] [units=U] [session=S] [role=R]
 *			request R for model M arrives
 *	form	the device is free: EXPECT is what it runs, "M R@FIRST+COUNT …", or "-", or
 *			"later T"; the batch is done at once
 *	take	the same, but the batch goes on running
 *	done	the batch that was taken last is done
 *	segment T	a segment of that batch has taken so long
 *	interrupt	what runs before its next one, as EXPECT of form; it is done at once
 *	wanted	whether anybody still wants it: "yes" or "no"
 *	cancel R, expire, ready M 0|1, drain M
 * EXPECT of the others: requests that ended by it, "R R …", or "refused".
 *
 * A batch takes what is predicted of it: nsec_batch, and for each row of A and D nsec_row, of B
 * 4 times and of C 10 times as much.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/scheduler/batch.h"
#include "protocol/protocol.h"
#include "tap.h"

#define REQUESTS 32
#define MODELS 4

struct step
{
	const char *what;
	const char *expect;
};

struct test_case
{
	const char *name;
	uint32_t	rows_max;
	uint32_t	requests_max;
	uint64_t	delay;
	uint64_t	units_max;
	struct step steps[24];
	uint64_t	slice;
	uint32_t	share;
	uint64_t	nsec_batch;
	uint64_t	nsec_row;
};

static const struct test_case cases[] = {
	{"a free device runs what waits, at once", 8, 100, 0, 0, {
		{"0 push 1 A 3", ""},
		{"0 form", "A 1@0+3"},
		{"0 form", "-"},
	}},
	{"what gathers while the device is busy is one batch", 8, 100, 0, 0, {
		{"0 push 1 A 1", ""},
		{"0 take", "A 1@0+1"},
		{"1 push 2 A 2", ""},
		{"2 push 3 A 1", ""},
		{"3 done", "1"},
		{"3 form", "A 2@0+2 3@0+1"},
	}},
	{"a large request is split, and goes on behind those that wait", 4, 100, 0, 0, {
		{"0 push 1 A 10", ""},
		{"0 push 2 A 1", ""},
		{"0 form", "A 1@0+4"},
		{"1 form", "A 2@0+1 1@4+3"},
		{"2 form", "A 1@7+3"},
		{"3 form", "-"},
	}},
	{"a split request ends with its last batch", 4, 100, 0, 0, {
		{"0 push 1 A 6", ""},
		{"0 take", "A 1@0+4"},
		{"1 done", ""},
		{"1 take", "A 1@4+2"},
		{"2 done", "1"},
	}},
	{"models take turns by longest waiting", 4, 100, 0, 0, {
		{"0 push 1 A 12", ""},
		{"1 push 2 B 4", ""},
		{"2 push 3 C 1", ""},
		{"3 form", "A 1@0+4"},
		{"4 form", "B 2@0+4"},
		{"5 form", "C 3@0+1"},
		{"6 form", "A 1@4+4"},
		{"7 form", "A 1@8+4"},
	}},
	{"a model's own bound is kept", 100, 100, 0, 0, {
		{"0 push 1 D 5", ""},
		{"0 form", "D 1@0+2"},
		{"0 form", "D 1@2+2"},
		{"0 form", "D 1@4+1"},
	}},
	{"a row that does not fit is looked past, and heads the next batch", 100, 100, 0, 10, {
		{"0 push 1 A 1 units=6", ""},
		{"0 push 2 A 1 units=7", ""},
		{"0 push 3 A 2 units=2", ""},
		{"0 form", "A 1@0+1 3@0+2"},
		{"0 form", "A 2@0+1"},
	}},
	{"rows are split at rows by what they cost", 100, 100, 0, 10, {
		{"0 push 1 A 5 units=4", ""},
		{"0 push 2 A 1 units=2", ""},
		{"0 form", "A 1@0+2 2@0+1"},
		{"0 form", "A 1@2+2"},
		{"0 form", "A 1@4+1"},
	}},
	{"a row over the whole room is a batch of its own", 100, 100, 0, 10, {
		{"0 push 1 A 2 units=50", ""},
		{"0 push 2 A 1 units=1", ""},
		{"0 form", "A 1@0+1"},
		{"0 form", "A 2@0+1"},
		{"0 form", "A 1@1+1"},
	}},
	{"a marked request runs one row at a time, alone", 8, 100, 0, 0, {
		{"0 push 1 A 2", ""},
		{"0 push 2 A 2 marked", ""},
		{"0 push 3 A 1", ""},
		{"0 form", "A 1@0+2 3@0+1"},
		{"0 form", "A 2@0+1 !"},
		{"0 push 4 A 1", ""},
		{"0 form", "A 2@1+1 !"},
		{"0 form", "A 4@0+1"},
	}},
	{"interactive calls over the bound are refused, others wait", 8, 2, 0, 0, {
		{"0 push 1 A 1", ""},
		{"0 push 2 A 1", ""},
		{"0 push 3 A 1", "refused"},
		{"0 push 4 A 1 class=1", ""},
		{"0 push 5 A 1 class=2", ""},
		{"0 take", "A 1@0+1 2@0+1 4@0+1 5@0+1"},
		{"0 push 6 A 1", "refused"},
		{"1 done", "1 2 4 5"},
		{"1 push 7 A 1", ""},
	}},
	{"a cancelled request is not computed", 8, 100, 0, 0, {
		{"0 push 1 A 1", ""},
		{"0 push 2 A 1", ""},
		{"1 cancel 1", "1"},
		{"1 form", "A 2@0+1"},
		{"1 push 3 B 1", ""},
		{"1 cancel 3", "3"},
		{"1 form", "-"},
	}},
	{"a request that is being computed ends when its batch does", 4, 100, 0, 0, {
		{"0 push 1 A 9", ""},
		{"0 take", "A 1@0+4"},
		{"1 cancel 1", ""},
		{"1 form", "-"},
		{"2 done", "1"},
	}},
	{"a late request is not computed", 8, 100, 0, 0, {
		{"0 push 1 A 1 deadline=10", ""},
		{"0 push 2 A 1 deadline=30", ""},
		{"0 push 3 A 1", ""},
		{"9 expire", ""},
		{"10 expire", "1"},
		{"10 form", "A 2@0+1 3@0+1"},
		{"40 expire", ""},
	}},
	{"late requests of every model go, the last of a queue too", 8, 100, 0, 0, {
		{"0 push 1 A 1 deadline=10", ""},
		{"0 push 2 B 1 deadline=10", ""},
		{"0 push 3 B 1 deadline=50", ""},
		{"20 expire", "1 2"},
		{"20 form", "B 3@0+1"},
		{"20 form", "-"},
		{"60 push 4 A 1 deadline=70", ""},
		{"80 expire", "4"},
	}},
	{"a request that becomes late between its batches ends with the one that runs", 4, 100, 0, 0, {
		{"0 push 1 A 9 deadline=10", ""},
		{"0 take", "A 1@0+4"},
		{"20 expire", ""},
		{"20 form", "-"},
		{"21 done", "1"},
	}},
	{"a delay waits for more, but not when the batch is full", 4, 100, 50, 0, {
		{"0 push 1 A 1", ""},
		{"10 form", "later 50"},
		{"20 push 2 A 2", ""},
		{"20 form", "later 50"},
		{"50 form", "A 1@0+1 2@0+2"},
		{"60 push 3 A 4", ""},
		{"60 form", "A 3@0+4"},
		{"70 push 4 A 1 marked", ""},
		{"70 form", "A 4@0+1 !"},
	}},
	{"requests of a model that is being loaded wait, and delay nobody", 8, 100, 0, 0, {
		{"0 ready A 0", ""},
		{"0 push 1 A 1", ""},
		{"1 push 2 B 1", ""},
		{"2 form", "B 2@0+1"},
		{"3 form", "-"},
		{"4 ready A 1", ""},
		{"4 form", "A 1@0+1"},
	}},
	{"a model that fails gives back all that wait for it", 8, 100, 0, 0, {
		{"0 push 1 A 1", ""},
		{"0 push 2 A 1", ""},
		{"0 push 3 B 1", ""},
		{"1 drain A", "1 2"},
		{"1 form", "B 3@0+1"},
		{"1 form", "-"},
	}},

	/* classes */
	{"a higher class goes first", 8, 100, 0, 0, {
		{"0 push 1 A 1 class=2", ""},
		{"1 push 2 B 1 class=1", ""},
		{"2 push 3 C 1", ""},
		{"3 push 4 A 1", ""},
		{"4 form", "A 4@0+1 1@0+1"},
		{"4 push 5 A 9 class=2", ""},
		{"4 form", "C 3@0+1"},
		{"4 form", "B 2@0+1"},
		{"4 form", "A 5@0+8"},
	}},
	{"what is left of a batch goes to lower classes of its model, in their order", 8, 100, 0, 0, {
		{"0 push 1 A 20 class=2", ""},
		{"1 push 2 A 3 class=1", ""},
		{"2 push 3 A 2", ""},
		{"3 push 4 B 9 class=1", ""},
		{"4 form", "A 3@0+2 2@0+3 1@0+3"},
		{"4 form", "B 4@0+8"},
		{"4 form", "B 4@8+1"},
		{"4 form", "A 1@3+8"},
	}},
	{"bulk work does not make single calls be refused", 8, 1, 0, 0, {
		{"0 push 1 A 100 class=2", ""},
		{"0 push 2 A 100 class=1", ""},
		{"0 push 3 A 1", ""},
		{"0 push 4 A 1", "refused"},
		{"0 form", "A 3@0+1 2@0+7"},
		{"0 push 4 A 1", ""},
	}},

	/* slices */
	{"a batch has no more rows than fit into a slice", 100, 100, 0, 0, {
		{"0 push 1 A 20", ""},
		{"0 push 2 B 3 class=1", ""},
		{"0 form", "A 1@0+8"},
		{"0 form", "A 1@8+8"},
		{"0 form", "A 1@16+4"},
		{"0 form", "B 2@0+2"},
		{"0 form", "B 2@2+1"},
	}, .slice = 100, .nsec_batch = 20, .nsec_row = 10},
	{"a row that is longer than a slice runs alone", 100, 100, 0, 0, {
		{"0 push 1 A 2", ""},
		{"0 push 2 A 1", ""},
		{"0 form", "A 1@0+1"},
		{"0 form", "A 2@0+1"},
		{"0 form", "A 1@1+1"},
	}, .slice = 100, .nsec_row = 500},
	{"a batch whose constant part is longer than a slice is not cut to single rows", 100, 100, 0, 0, {
		{"0 push 1 A 20", ""},
		{"0 form", "A 1@0+10"},
	}, .slice = 100, .nsec_batch = 300, .nsec_row = 10},
	{"slack is a slice's, too", 100, 100, 0, 0, {
		{"0 push 1 A 20 class=2", ""},
		{"0 push 2 A 1 class=1", ""},
		{"0 form", "A 2@0+1 1@0+9"},
	}, .slice = 100, .nsec_row = 10},
	{"beside interactive rows it is a third of a slice", 100, 100, 0, 0, {
		{"0 push 1 A 20 class=2", ""},
		{"0 push 2 A 1", ""},
		{"0 push 3 A 1 class=1", ""},
		{"0 form", "A 2@0+1 3@0+1 1@0+2"},
		{"1 push 2 A 8", ""},
		{"1 form", "A 2@0+8 1@2+2"},
		{"2 form", "A 1@4+10"},
	}, .slice = 100, .nsec_row = 10},
	{"which a row of others may be too long for", 100, 100, 0, 0, {
		{"0 push 1 B 20 class=2", ""},
		{"0 push 2 B 1", ""},
		{"0 form", "B 2@0+1"},
		{"1 form", "B 1@0+2"},
	}, .slice = 100, .nsec_row = 10},

	/* shares */
	{"a lower class that waits gets its share", 10, 100, 0, 0, {
		{"0 push 1 A 100", ""},
		{"0 push 2 D 20 class=2", ""},
		{"0 form", "A 1@0+10"},
		{"0 form", "A 1@10+10"},
		{"0 form", "A 1@20+10"},
		{"0 form", "A 1@30+10"},
		{"0 form", "D 2@0+2"},
		{"0 form", "A 1@40+10"},
		{"0 form", "A 1@50+10"},
		{"0 form", "A 1@60+10"},
		{"0 form", "A 1@70+10"},
		{"0 form", "D 2@2+2"},
	}, .slice = 100, .share = 5, .nsec_row = 10},
	{"a class that is alone neither pays nor saves", 10, 100, 0, 0, {
		{"0 push 2 D 8 class=2", ""},
		{"0 form", "D 2@0+2"},
		{"0 form", "D 2@2+2"},
		{"0 form", "D 2@4+2"},
		{"0 push 1 A 40", ""},
		{"0 form", "A 1@0+10"},
		{"0 form", "A 1@10+10"},
		{"0 form", "D 2@6+2"},
		{"0 form", "A 1@20+10"},
		{"0 push 3 D 2 class=2", ""},
		{"0 form", "A 1@30+10"},
		{"0 form", "D 3@0+2"},
	}, .slice = 100, .share = 10, .nsec_row = 10},
	{"who is alone between the segments owes nothing for them", 8, 100, 0, 0, {
		{"0 push 1 C 1 class=2", ""},
		{"0 take", "C 1@0+1"},
		{"0 push 2 A 1", ""},
		{"60 segment 60", ""},
		{"60 interrupt", "A 2@0+1"},
		{"60 interrupt", "-"},
		{"70 segment 600", ""},
		{"70 interrupt", "-"},
		{"80 done", "1"},
		{"80 push 3 A 100", ""},
		{"80 push 4 C 1 class=2", ""},
		{"80 form", "A 3@0+6"},
		{"80 form", "A 3@6+6"},
		{"80 form", "C 4@0+1"},
		{"80 form", "A 3@12+6"},
	}, .slice = 60, .share = 50, .nsec_row = 10},
	{"a row longer than what was owed is paid off, also by a class that then rests", 8, 100, 0, 0, {
		{"0 push 1 A 100", ""},
		{"0 push 2 C 1 class=2", ""},
		{"0 form", "A 1@0+2"},
		{"0 form", "A 1@2+2"},
		{"0 form", "C 2@0+1"},
		{"0 push 3 C 1 class=2", ""},
		{"0 form", "A 1@4+2"},
		{"0 form", "A 1@6+2"},
		{"0 form", "A 1@8+2"},
		{"0 form", "A 1@10+2"},
		{"0 form", "A 1@12+2"},
		{"0 form", "C 3@0+1"},
	}, .slice = 20, .share = 50, .nsec_row = 10},
	{"no share, no turn", 10, 100, 0, 0, {
		{"0 push 1 A 30", ""},
		{"0 push 2 D 2 class=2", ""},
		{"0 form", "A 1@0+10"},
		{"0 form", "A 1@10+10"},
		{"0 form", "A 1@20+10"},
		{"0 form", "D 2@0+2"},
	}, .slice = 100, .share = 0, .nsec_row = 10},

	/* fairness */
	{"a role of many sessions gets as much as one of a single session", 1, 100, 0, 0, {
		{"0 push 1 A 9 class=1 session=1 role=7", ""},
		{"0 push 2 A 9 class=1 session=2 role=7", ""},
		{"0 push 3 A 9 class=1 session=3 role=7", ""},
		{"0 push 4 A 9 class=1 session=4 role=8", ""},
		{"0 form", "A 1@0+1"},
		{"0 form", "A 2@0+1"},
		{"0 form", "A 3@0+1"},
		{"0 form", "A 4@0+1"},
		{"0 form", "A 4@1+1"},
		{"0 form", "A 4@2+1"},
		{"0 form", "A 1@1+1"},
		{"0 form", "A 2@1+1"},
		{"0 form", "A 3@1+1"},
		{"0 form", "A 4@3+1"},
		{"0 form", "A 4@4+1"},
		{"0 form", "A 4@5+1"},
		{"0 form", "A 1@2+1"},
	}, .nsec_row = 10},
	{"a newcomer goes before what a session has piled up", 1, 100, 0, 0, {
		{"0 push 1 A 1 session=1", ""},
		{"0 push 2 A 1 session=1", ""},
		{"0 push 3 A 1 session=1", ""},
		{"0 push 4 A 1 session=1", ""},
		{"0 form", "A 1@0+1"},
		{"0 form", "A 2@0+1"},
		{"0 push 5 A 1 session=2", ""},
		{"0 form", "A 5@0+1"},
		{"0 form", "A 3@0+1"},
		{"0 form", "A 4@0+1"},
	}, .nsec_row = 10},
	{"sessions get equal device time, not equal rows, whatever their models", 1, 100, 0, 0, {
		{"0 push 1 A 20 class=2 session=1", ""},
		{"0 push 2 B 20 class=2 session=2", ""},
		{"0 form", "A 1@0+1"},
		{"1 form", "B 2@0+1"},
		{"2 form", "A 1@1+1"},
		{"3 form", "A 1@2+1"},
		{"4 form", "A 1@3+1"},
		{"5 form", "B 2@1+1"},
		{"6 form", "A 1@4+1"},
		{"7 form", "A 1@5+1"},
		{"8 form", "A 1@6+1"},
		{"9 form", "A 1@7+1"},
		{"10 form", "B 2@2+1"},
	}, .nsec_row = 10},
	{"who was idle has saved nothing", 1, 100, 0, 0, {
		{"0 push 1 A 1 session=1", ""},
		{"0 form", "A 1@0+1"},
		{"0 push 2 A 30 session=2", ""},
		{"0 form", "A 2@0+1"},
		{"0 form", "A 2@1+1"},
		{"0 form", "A 2@2+1"},
		{"0 push 3 A 3 session=1", ""},
		{"0 form", "A 3@0+1"},
		{"0 form", "A 2@3+1"},
		{"0 form", "A 3@1+1"},
		{"0 form", "A 2@4+1"},
		{"0 form", "A 3@2+1"},
	}, .nsec_row = 10},
	{"what was cancelled was not used", 1, 100, 0, 0, {
		{"0 push 1 A 9 session=1", ""},
		{"0 cancel 1", "1"},
		{"0 push 2 A 1 session=2", ""},
		{"0 push 3 A 1 session=2", ""},
		{"0 push 4 A 1 session=1", ""},
		{"0 form", "A 2@0+1"},
		{"0 form", "A 4@0+1"},
		{"0 form", "A 3@0+1"},
	}, .nsec_row = 10},

	{"what was cancelled was not used, whoever has come and gone since", 1, 100, 0, 0, {
		{"0 push 1 A 1 session=1 role=7", ""},
		{"0 push 2 A 9 session=2 role=7", ""},
		{"0 cancel 1", "1"},
		{"0 cancel 2", "2"},
		{"0 push 3 A 1 session=3 role=8", ""},
		{"0 push 4 A 1 session=2 role=7", ""},
		{"0 push 5 A 1 session=3 role=8", ""},
		{"0 form", "A 3@0+1"},
		{"0 form", "A 4@0+1"},
		{"0 form", "A 5@0+1"},
	}, .nsec_row = 10},

	{"who sends one small call after the other is not behind who fills the batches up", 100, 100, 0, 0, {
		{"0 push 1 B 50 session=1 role=7", ""},
		{"0 push 2 A 100 session=2 role=8", ""},
		{"0 push 3 A 1 session=3 role=9", ""},
		{"0 form", "B 1@0+2"},
		{"0 form", "A 2@0+10"},
		{"0 form", "A 3@0+1 2@10+9"},
		{"0 push 4 A 1 session=3 role=9", ""},
		{"0 form", "A 4@0+1"},
		{"0 push 5 A 1 session=3 role=9", ""},
		{"0 form", "A 5@0+1"},
		{"0 form", "B 1@2+2"},
		{"0 form", "B 1@4+2"},
	}, .slice = 100, .nsec_row = 10},

	/* segments */
	{"between two segments batches of higher classes go first", 8, 100, 0, 0, {
		{"0 push 1 C 1 class=2", ""},
		{"0 take", "C 1@0+1"},
		{"60 segment 60", ""},
		{"60 interrupt", "-"},
		{"60 push 2 A 2", ""},
		{"60 push 3 C 1", ""},
		{"60 push 4 A 5 class=1", ""},
		{"60 interrupt", "A 2@0+2"},
		{"60 interrupt", "C 3@0+1"},
		{"60 interrupt", "A 4@0+5"},
		{"60 interrupt", "-"},
		{"100 segment 40", ""},
		{"100 done", "1"},
	}, .slice = 60, .share = 1, .nsec_row = 10},
	{"an interactive batch gives way once a segment, and to short ones", 8, 100, 0, 0, {
		{"0 push 1 C 1", ""},
		{"0 take", "C 1@0+1"},
		{"0 push 2 A 9", ""},
		{"0 push 3 C 1", ""},
		{"60 segment 60", ""},
		{"60 interrupt", "A 2@0+6"},
		{"60 interrupt", "-"},
		{"80 segment 20", ""},
		{"80 interrupt", "A 2@6+3"},
		{"90 segment 10", ""},
		{"90 interrupt", "-"},
		{"100 segment 10", ""},
		{"100 done", "1"},
		{"100 form", "C 3@0+1"},
	}, .slice = 60, .nsec_row = 10},
	{"a batch between two segments gets its class's share", 8, 100, 0, 0, {
		{"0 push 1 C 1 class=2", ""},
		{"0 take", "C 1@0+1"},
		{"0 push 2 A 100", ""},
		{"60 segment 60", ""},
		{"60 interrupt", "A 2@0+6"},
		{"60 interrupt", "A 2@6+6"},
		{"60 interrupt", "-"},
		{"60 segment 60", ""},
		{"60 interrupt", "A 2@12+6"},
		{"60 interrupt", "-"},
	}, .slice = 60, .share = 50, .nsec_row = 10},
	{"a marked batch is alone between its segments, too", 8, 100, 0, 0, {
		{"0 push 1 C 1 class=2 marked", ""},
		{"0 take", "C 1@0+1 !"},
		{"0 push 2 A 1", ""},
		{"60 segment 60", ""},
		{"60 interrupt", "-"},
		{"60 done", "1"},
		{"60 push 3 C 1 class=2", ""},
		{"60 form", "A 2@0+1"},
		{"60 take", "C 3@0+1"},
		{"60 push 4 A 1 marked", ""},
		{"90 segment 60", ""},
		{"90 interrupt", "-"},
	}, .slice = 60, .nsec_row = 10},
	{"a request is in one batch at a time, also between segments", 8, 100, 0, 0, {
		{"0 push 1 A 9", ""},
		{"0 take", "A 1@0+6"},
		{"30 segment 30", ""},
		{"30 interrupt", "-"},
		{"30 push 2 A 2", ""},
		{"40 segment 10", ""},
		{"40 interrupt", "A 2@0+2"},
		{"60 done", ""},
		{"60 form", "A 1@6+3"},
	}, .slice = 60, .nsec_row = 10},
	{"who cannot run between two segments does not hold up who can", 8, 100, 0, 0, {
		{"0 ready D 0", ""},
		{"0 push 4 D 1 session=4 role=7", ""},
		{"0 push 1 B 1 session=1 role=7", ""},
		{"0 form", "B 1@0+1"},
		{"0 push 2 A 9 session=2", ""},
		{"0 take", "A 2@0+6"},
		{"0 push 3 B 1 session=1 role=7", ""},
		{"30 segment 30", ""},
		{"30 interrupt", "B 3@0+1"},
		{"60 done", ""},
		{"60 form", "A 2@6+3"},
	}, .slice = 60, .nsec_row = 10},
	{"a marked call waits for the end of a batch, others do not", 8, 100, 0, 0, {
		{"0 push 1 C 1 class=2", ""},
		{"0 take", "C 1@0+1"},
		{"0 push 2 A 1 marked", ""},
		{"0 push 3 A 1", ""},
		{"0 push 4 B 1", ""},
		{"60 segment 60", ""},
		{"60 interrupt", "A 3@0+1"},
		{"60 interrupt", "B 4@0+1"},
		{"60 interrupt", "-"},
		{"100 done", "1"},
		{"100 form", "A 2@0+1 !"},
	}, .slice = 60, .nsec_row = 10},
	{"a late marked request is not computed", 8, 100, 0, 0, {
		{"0 push 1 A 1 marked deadline=10", ""},
		{"20 form", "later 20"},
		{"20 expire", "1"},
		{"20 form", "-"},
	}},
	{"a batch that nobody wants any more is given up between two segments", 8, 100, 0, 0, {
		{"0 push 1 C 1 class=1", ""},
		{"0 push 2 C 1 class=1 deadline=50", ""},
		{"0 take", "C 1@0+1 2@0+1"},
		{"10 wanted", "yes"},
		{"20 cancel 1", ""},
		{"30 wanted", "yes"},
		{"60 wanted", "no"},
		{"60 done", "1 2"},
	}, .slice = 1000, .nsec_row = 10},
	{"who is late is not computed, told or not", 8, 100, 0, 0, {
		{"0 push 1 A 1 deadline=10", ""},
		{"0 push 2 A 1", ""},
		{"20 form", "A 2@0+1"},
		{"20 form", "later 20"},
		{"20 expire", "1"},
		{"20 form", "-"},
	}},
};

static struct batch_policy policy;
static struct batch_model models[MODELS];
static struct batch_request requests[REQUESTS];
static struct batch_session sessions[REQUESTS];
static struct batch nested;
static uint32_t interrupted;
static uint32_t units[REQUESTS][64];
static struct batch batch;
static char got[512];

static void
say(const char *format,...)
{
	va_list		args;
	size_t		used = strlen(got);

	va_start(args, format);
	vsnprintf(got + used, sizeof(got) - used, format, args);
	va_end(args);
}

static void
say_ended(const struct batch_request *request)
{
	say("%s%d", got[0] != '\0' ? " " : "", (int) (request - requests));
}

static uint64_t
option(const char *what, const char *name, uint64_t otherwise)
{
	const char *at = strstr(what, name);

	return at != NULL ? strtoull(at + strlen(name), NULL, 10) : otherwise;
}

static void
push(const char *what, uint64_t now, int number, char model, uint32_t rows)
{
	struct batch_request *r = &requests[number];
	uint64_t	cost = option(what, "units=", 0);

	memset(r, 0, sizeof(*r));
	r->rows = rows;
	r->class_ = (uint32_t) option(what, "class=", INFER_CLASS_INTERACTIVE);
	r->deadline = option(what, "deadline=", 0);
	r->marked = strstr(what, "marked") != NULL;
	for (uint32_t i = 0; cost > 0 && i < rows; i++)
		units[number][i] = (uint32_t) cost;
	r->units = cost > 0 ? units[number] : NULL;
	r->session = strstr(what, "session=") != NULL ? &sessions[option(what, "session=", 0)] : NULL;
	r->role = (uint32_t) option(what, "role=", 10);
	if (!batch_push(&policy, &models[model - 'A'], r, now))
		say("refused");
}

static void
say_batch(const struct batch *b)
{
	say("%c", (int) ('A' + (b->model - models)));
	for (uint32_t i = 0; i < b->slices_count; i++)
		say(" %d@%u+%u", (int) (b->slices[i].request - requests), b->slices[i].first, b->slices[i].count);
	if (b->marked)
		say(" !");
}

static void
form(uint64_t now)
{
	uint64_t	wake;
	uint32_t	rows = 0;
	enum batch_next expected = batch_choose(&policy, now, &batch, &rows, &wake);
	struct batch_model *chosen = batch.model;
	enum batch_next next = batch_form(&policy, now, &batch, &wake);

	if ((next != expected && wake != now) || (next == BATCH_NOW && (chosen != batch.model || rows < batch.rows)))
		say("(the choice differs) ");
	if (next == BATCH_NOTHING)
		say("-");
	else if (next == BATCH_LATER)
		say("later %llu", (unsigned long long) wake);
	if (next == BATCH_NOW)
		say_batch(&batch);
}

static void
done(struct batch *b, bool segments, bool quiet)
{
	uint64_t	nsec = b->slices_count > 0 ? batch_nsec(b->model, b->rows) : 0;

	if (b->slices_count > 0 && !segments)
		batch_charge_segment(&policy, b, nsec, false);
	if (b->slices_count > 0)
		batch_charge(&policy, b, nsec);
	for (uint32_t i = 0; i < b->slices_count; i++)
	{
		if (batch_done(&policy, b->slices[i].request, b->slices[i].count) && !quiet)
			say_ended(b->slices[i].request);
	}
	b->slices_count = 0;
}

static void
interrupt(uint64_t now)
{
	if (!batch_interrupt(&policy, now, &batch, interrupted, &nested))
	{
		say("-");
		return;
	}
	interrupted++;
	say_batch(&nested);
	done(&nested, false, true);
	batch_resume(&policy, &batch);
}

static void
step(const char *what)
{
	unsigned long long now = 0;
	char		word[16] = "";
	int			number = 0;
	char		model = 'A';
	unsigned	rows = 0;
	struct batch_request *ended;
	static struct batch running;
	static bool segments;

	sscanf(what, "%llu %15s", &now, word);
	if (strcmp(word, "push") == 0)
	{
		sscanf(what, "%*u %*s %d %c %u", &number, &model, &rows);
		push(what, now, number, model, rows);
	}
	else if (strcmp(word, "take") == 0)
	{
		form(now);
		segments = false;
	}
	else if (strcmp(word, "segment") == 0)
	{
		sscanf(what, "%*u %*s %u", &rows);
		batch_charge_segment(&policy, &batch, rows, true);
		segments = true;
		interrupted = 0;
	}
	else if (strcmp(word, "interrupt") == 0)
		interrupt(now);
	else if (strcmp(word, "wanted") == 0)
		say("%s", batch_wanted(&batch, now) ? "yes" : "no");
	else if (strcmp(word, "form") == 0)
	{
		running = batch;		/* a batch that was taken goes on running */
		form(now);
		done(&batch, false, true);
		batch = running;
	}
	else if (strcmp(word, "done") == 0)
		done(&batch, segments, false);
	else if (strcmp(word, "cancel") == 0)
	{
		sscanf(what, "%*u %*s %d", &number);
		if (batch_cancel(&policy, &requests[number]))
			say_ended(&requests[number]);
	}
	else if (strcmp(word, "expire") == 0)
	{
		while ((ended = batch_expire(&policy, now)) != NULL)
			say_ended(ended);
	}
	else if (strcmp(word, "drain") == 0)
	{
		sscanf(what, "%*u %*s %c", &model);
		while ((ended = batch_drain(&policy, &models[model - 'A'])) != NULL)
			say_ended(ended);
	}
	else if (strcmp(word, "ready") == 0)
	{
		sscanf(what, "%*u %*s %c %u", &model, &rows);
		models[model - 'A'].ready = rows != 0;
	}
}

static void
run_case(const struct test_case *c)
{
	bool		good = true;

	batch_policy_init(&policy);
	policy.rows_max = c->rows_max;
	policy.requests_max = c->requests_max;
	policy.delay = c->delay;
	policy.slice = c->slice;
	policy.share = c->share;
	memset(sessions, 0, sizeof(sessions));
	batch.slices_count = 0;
	for (int m = 0; m < MODELS; m++)
	{
		batch_model_init(&models[m]);
		models[m].rows_max = m == 3 ? 2 : 1000;
		models[m].units_max = c->units_max;
		models[m].nsec_batch = c->nsec_batch;
		models[m].nsec_row = c->nsec_row * (m == 1 ? 4 : m == 2 ? 10 : 1);
		models[m].ready = true;
	}
	for (int i = 0; c->steps[i].what != NULL; i++)
	{
		got[0] = '\0';
		step(c->steps[i].what);
		if (strcmp(got, c->steps[i].expect) == 0)
			continue;
		printf("# %s: \"%s\" gave \"%s\", not \"%s\"\n", c->name, c->steps[i].what, got, c->steps[i].expect);
		good = false;
	}
	tap_ok(good, "%s", c->name);
}

int
main(void)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		run_case(&cases[i]);
	return tap_done();
}
