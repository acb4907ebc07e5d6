/*
 * rows.c
 *	  Many calls of one site, sent together: beginning, sending, waiting, ending.
 *
 * Rows are added by add.c and answered by answers.c.
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "many.h"

/* ---- beginning and ending ---- */

static void
release_part(RowsPart *part)
{
	part->asked->users--;
}

/* Entries that no ticket will give a result any more are forgotten; others are free to go. */
static void
release_tickets(InferRows *rows)
{
	Memo	   *memo = rows->site->memo;

	for (int i = 0; i < rows->tickets_count; i++)
	{
		RowsTicket *ticket = &rows->tickets[i];

		if (ticket->entry == MEMO_NONE)
			continue;
		if (ticket->remembered)
			memo_unpin(memo, ticket->entry);
		else
			memo_forget(memo, ticket->entry);
		ticket->entry = MEMO_NONE;
	}
}

/* The reset callback; calls in flight have their own. */
static void
release_rows(void *arg)
{
	InferRows  *rows = arg;

	if (rows->site == NULL)
		return;
	release_tickets(rows);
	for (int i = 0; i < rows->parts_count; i++)
		release_part(&rows->parts[i]);
	dlist_delete(&rows->link);
	rows->site = NULL;
}

InferRows *
infer_rows_begin(InferSite *site, int capacity, uint32 class_, bool alone)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "infer rows", ALLOCSET_DEFAULT_SIZES);
	InferRows  *rows = MemoryContextAllocZero(context, sizeof(InferRows));

	infer_require_preload();
	rows->context = context;
	rows->scratch = AllocSetContextCreate(context, "infer row", ALLOCSET_SMALL_SIZES);
	rows->site = site;
	rows->number = ++site->rows_last;
	rows->class_ = class_;
	rows->quiet = site->def->quiet || infer_on_error == INFER_ON_ERROR_NULL;
	rows->memo = site->def->deduplicate && !alone && !site->counts_tokens;
	rows->capacity = Min(Max(capacity, 1), INFER_ROWS_MAX);
	rows->tickets = MemoryContextAlloc(context, rows->capacity * sizeof(RowsTicket));
	if (rows->memo && site->memo == NULL)
		site->memo = memo_make(site->context, verb_by_value(site->def->verb));

	dlist_push_tail(&site->rows, &rows->link);
	rows->callback.func = release_rows;
	rows->callback.arg = rows;
	MemoryContextRegisterResetCallback(context, &rows->callback);
	return rows;
}

void
infer_rows_end(InferRows *rows)
{
	MemoryContextDelete(rows->context);		/* release_rows runs */
}

/* ---- sending and waiting ---- */

/* The verb's outputs, and the number of tokens where the site is to count them. */
static uint32
wanted(const InferSite *site, const VerbAsked *asked)
{
	return asked->wanted | (site->counts_tokens ? infer_result_tokens_counted(asked->model) : 0);
}

void
infer_rows_set_once(InferRows *rows)
{
	Assert(!rows->sent);
	rows->once = true;
}

void
infer_rows_submit(InferRows *rows)
{
	MemoryContext old = MemoryContextSwitchTo(rows->context);

	Assert(!rows->sent);
	rows->sent = true;
	MemoryContextReset(rows->scratch);
	for (int i = 0; i < rows->parts_count; i++)
	{
		RowsPart   *part = &rows->parts[i];

		if (part->call != NULL && part->rows == 0)
		{
			infer_client_end(part->call);
			part->call = NULL;
		}
		if (part->call == NULL)
			continue;
		infer_client_set_rows(part->call, part->rows);
		if (rows->once && part->rows > INFER_ROWS_MARKED)
			infer_client_set_once(part->call);
		infer_client_submit(part->call, wanted(rows->site, part->asked->asked));
		rows->site->counters.batches++;
	}
	MemoryContextSwitchTo(old);
}

void
infer_rows_wait(InferRows *rows, InferScope *within)
{
	MemoryContext old = MemoryContextSwitchTo(rows->context);

	Assert(rows->sent);
	for (int i = 0; i < rows->parts_count && !rows->done; i++)
	{
		RowsPart   *part = &rows->parts[i];

		if (part->call == NULL)
			continue;
		part->error = infer_client_wait_quiet(part->call, within);
		if (part->error != NULL)
			continue;
		site_learn(rows->site, part->call, part->rows, infer_client_used(part->call) - part->bytes_before);
	}
	rows->done = true;
	MemoryContextSwitchTo(old);
}
