/*
 * many.h
 *	  What the files about many calls at once (site.c, rows.c, add.c, answers.c) share.
 *
 * Nouns
 *	part		the rows that ask the same model: one request
 *	ticket		what the caller knows a row by; equal rows have the same one
 *
 * Invariants
 *	- A part's asked stays as long as the part: it is counted in users.
 *	- An entry of the memo is pending exactly as long as a ticket of rows that are not ended refers to
 *	  it, and its result was not made; whoever looks it up meanwhile from other rows computes it again.
 */
#ifndef INFER_VERBS_MANY_H
#define INFER_VERBS_MANY_H

#include "postgres.h"

#include "lib/ilist.h"
#include "lib/stringinfo.h"

#include "internal.h"
#include "memo.h"

#define SITE_ASKED_MAX	16			/* names and shapes that a site remembers */
#define SITE_TIMES		4			/* requests whose times it remembers */

typedef struct SiteAsked			/* in the site's own context */
{
	struct SiteAsked *next;
	VerbAsked  *asked;				/* in a context of its own */
	uint32		id;					/* of it alone, within the site */
	int			users;				/* parts of rows that refer to it */
	bool		forgotten;
	uint64		used_at;			/* the site's clock */
	Bitmapset  *columns;			/* of a row that comes as its columns; NULL: not yet known */
	char	   *class_name;			/* probability: the class that was named last, and its number */
	int			class_length;
	int			class_;
} SiteAsked;

typedef struct SiteRequest
{
	uint32		rows;				/* 0: none yet */
	uint64		nsec;				/* of the device */
} SiteRequest;

struct InferSite
{
	MemoryContext context;
	MemoryContextCallback callback;
	const InferVerbDef *def;
	const FuncExpr *call;			/* NULL: of no plan */
	bool		variadic;
	bool		counts_tokens;		/* infer_site_count_tokens */
	int			inputs_count;
	Oid		   *types;				/* of the inputs */
	Oid			row_type;			/* the one input is a row of this type, as its columns; else invalid */
	int			row_width;			/* columns of it */
	dlist_head	rows;				/* that are not ended */
	uint64		rows_last;			/* the number of the last ones */

	SiteAsked  *all;
	SiteAsked  *asked[SITE_ASKED_MAX];		/* those not forgotten */
	int			asked_count;
	uint32		asked_last;
	uint64		clock;

	Memo	   *memo;				/* NULL: nothing was remembered yet, or never is */
	uint64		nsec[SITE_TIMES];	/* a row's share of a request on the device */
	SiteRequest few;				/* the smallest request so far, and the largest, with their least times */
	SiteRequest many;
	uint32		nsec_count;
	uint64		row_nsec;			/* 0: not known */
	uint64		byte_psec;			/* of a request's bytes, one's share in psec: it rises slowly; 0: not known */
	InferSiteCounters counters;
};

typedef struct RowsPart				/* a request */
{
	SiteAsked  *asked;
	InferCall  *call;				/* NULL: no row was needed */
	uint32		rows;
	uint32		rows_max;
	uint64		bytes_before;		/* of the call's inputs, before the first row */
	uint64		bytes_max;			/* of them; a row that passes it is the last */
	const struct infer_error_text *error;	/* the whole request's; NULL: none */
	ErrorData  *error_data;			/* the same, once it was asked for; not in these rows' context */
} RowsPart;

typedef struct RowsTicket
{
	int			part;
	uint32		row;				/* of the part's call */
	int			detail;				/* of the result: see verb_result */
	int			entry;				/* of the memo: computed by this ticket (pending), or pinned by it */
	bool		remembered;			/* the entry has the result */
	bool		made;				/* value is the result */
	bool		hides;				/* error is shown as NULL */
	Datum		value;				/* by value only */
	ErrorData  *error;				/* of the values or the result; NULL: none so far */
} RowsTicket;

struct InferRows
{
	dlist_node	link;				/* of the site's */
	MemoryContext context;
	MemoryContextCallback callback;
	MemoryContext scratch;			/* of a row that is added */
	InferSite  *site;				/* NULL: it has gone */
	uint64		number;				/* of the site's rows, from 1 */
	uint32		class_;
	bool		quiet;
	bool		memo;				/* equal inputs are computed once */
	bool		once;				/* see infer_rows_set_once */
	bool		sent;
	bool		done;
	int			capacity;
	int			tickets_count;
	RowsTicket *tickets;
	int			parts_count;
	RowsPart	parts[SITE_ASKED_MAX];
	StringInfoData key;				/* scratch of the memo's keys */
};

/* ---- site.c ---- */

/* What such a call asks; may_resolve false: NULL if that is not known yet, or not current any more. */
extern SiteAsked *site_ask(InferSite *site, const char *name, int length, const VerbArguments *arguments,
						   bool may_resolve);

/* Of so many rows, how many one request of that class has room for; one always. */
extern uint32 site_rows_room(const InferSite *site, const SiteAsked *asked, uint32 rows, uint32 class_);

/* How many bytes of inputs a request should have at most, beyond one row. */
extern uint64 site_bytes_room(const InferSite *site, const SiteAsked *asked, uint32 class_);

/* A request has ended, with so many rows and inputs of so many bytes. */
extern void site_learn(InferSite *site, const InferCall *call, uint32 rows, uint64 bytes);

/* ---- answers.c ---- */

/*
 * Runs a step; an error that is a row's business is returned, in that context, NULL: none.  Others
 * are raised.  The steps only convert values in memory: no subtransaction need undo them.
 */
extern ErrorData *answer_try(void (*step) (void *), void *arg, MemoryContext context);

#endif							/* INFER_VERBS_MANY_H */
