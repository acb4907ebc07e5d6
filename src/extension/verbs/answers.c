/*
 * answers.c
 *	  What rows that have been computed answer: results, errors, NULL.
 *
 * Invariants
 *	- Errors are those of the verb by itself: where it raises, the ticket has failed; where it gives
 *	  NULL (infer.try, infer.on_error), the result is NULL.
 *	- Only results are remembered.  What failed for one row is tried again for an equal one of other
 *	  rows, as it would be by itself.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/datum.h"

#include "many.h"

/* Whether an error is a row's business rather than the server's state or a fault. */
static bool
is_kept(int sqlerrcode)
{
	int			category = ERRCODE_TO_CATEGORY(sqlerrcode);

	return category != ERRCODE_TO_CATEGORY(ERRCODE_INSUFFICIENT_RESOURCES) &&
		category != ERRCODE_TO_CATEGORY(ERRCODE_OPERATOR_INTERVENTION) &&
		category != ERRCODE_TO_CATEGORY(ERRCODE_SYSTEM_ERROR) &&
		category != ERRCODE_TO_CATEGORY(ERRCODE_INTERNAL_ERROR) &&
		sqlerrcode != ERRCODE_PROTOCOL_VIOLATION;
}

/* Interrupts wait meanwhile, so that no error of somebody else is taken for the row's. */
ErrorData *
answer_try(void (*step) (void *), void *arg, MemoryContext context)
{
	MemoryContext old = CurrentMemoryContext;
	uint32		holdoff = InterruptHoldoffCount;
	ErrorData  *volatile error = NULL;

	HOLD_INTERRUPTS();
	PG_TRY();
	{
		step(arg);
	}
	PG_CATCH();
	{
		if (!is_kept(geterrcode()))
			PG_RE_THROW();
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		MemoryContextSwitchTo(old);
		FlushErrorState();
	}
	PG_END_TRY();
	InterruptHoldoffCount = holdoff;
	return error;
}

/* ---- results ---- */

typedef struct Answer
{
	InferRows  *rows;
	const RowsPart *part;
	RowsTicket *ticket;
	Datum		result;
} Answer;

static void
make_result(void *arg)
{
	Answer	   *answer = arg;

	answer->result = verb_result(answer->part->asked->asked, answer->rows->site->def->verb,
								 answer->part->call, answer->ticket->row, answer->ticket->detail);
}

/* The memo has a copy from now on, which the ticket keeps there. */
static void
remember(Answer *answer)
{
	RowsTicket *ticket = answer->ticket;
	Memo	   *memo = answer->rows->site->memo;

	memo_set(memo, ticket->entry, answer->result);
	ticket->entry = MEMO_NONE;
}

/* Makes the result; false: an error, kept under the ticket. */
static bool
make(Answer *answer)
{
	RowsTicket *ticket = answer->ticket;

	ticket->error = answer_try(make_result, answer, answer->rows->context);
	if (ticket->error != NULL)
	{
		ticket->hides = verb_error_is_rows(ticket->error->sqlerrcode);
		return false;
	}
	if (ticket->entry != MEMO_NONE)
		remember(answer);
	if (verb_by_value(answer->rows->site->def->verb))
	{
		ticket->value = answer->result;
		ticket->made = true;
	}
	return true;
}

/* NULL if the error may be shown so; else the ticket has failed. */
static bool
hide(const InferRows *rows, bool hides, bool *null)
{
	*null = rows->quiet && hides;
	return *null;
}

bool
infer_rows_result(InferRows *rows, int number, Datum *value, bool *null)
{
	RowsTicket *ticket = &rows->tickets[number];
	Answer		answer = {.rows = rows, .part = &rows->parts[ticket->part], .ticket = ticket};
	uint32		status;

	Assert(rows->done && number >= 0 && number < rows->tickets_count);
	*null = false;
	*value = (Datum) 0;
	if (ticket->made)
	{
		*value = ticket->value;
		return true;
	}
	if (ticket->error != NULL)
		return hide(rows, ticket->hides, null);
	if (ticket->remembered)
	{
		Datum		remembered = memo_value(rows->site->memo, ticket->entry);

		*value = verb_by_value(rows->site->def->verb) ? remembered : datumCopy(remembered, false, -1);
		return true;
	}
	if (answer.part->error != NULL)
		return hide(rows, infer_client_error_hides(answer.part->error->error), null);
	status = infer_client_row(answer.part->call, ticket->row, NULL);
	if (status != INFER_OK)
		return hide(rows, infer_client_error_hides(status), null);
	if (!make(&answer))
		return hide(rows, ticket->hides, null);
	*value = answer.result;
	return true;
}

int
infer_rows_tokens(InferRows *rows, int number)
{
	const RowsTicket *ticket = &rows->tickets[number];
	const RowsPart *part = &rows->parts[ticket->part];

	if (!rows->site->counts_tokens || infer_result_tokens_counted(part->asked->asked->model) == 0)
		return -1;
	return infer_result_token_count(part->asked->asked->model, part->call, ticket->row);
}

void
infer_rows_raise(InferRows *rows, int number)
{
	const RowsTicket *ticket = &rows->tickets[number];
	const RowsPart *part = &rows->parts[ticket->part];
	struct infer_error_text error;

	if (ticket->error != NULL)
		ReThrowError(ticket->error);
	if (part->error != NULL)
		infer_client_raise(part->error);
	if (infer_client_row(part->call, ticket->row, &error) == INFER_OK)
		elog(ERROR, "ticket %d has not failed", number);
	infer_client_raise(&error);
}

static char *
copy_text(const char *text)
{
	return text != NULL ? pstrdup(text) : NULL;
}

static ErrorData *
copy_error(const ErrorData *from)
{
	ErrorData  *error = palloc0(sizeof(ErrorData));

	error->elevel = ERROR;
	error->sqlerrcode = from->sqlerrcode;
	error->message = copy_text(from->message);
	error->detail = copy_text(from->detail);
	error->hint = copy_text(from->hint);
	error->assoc_context = CurrentMemoryContext;
	return error;
}

static ErrorData *
error_of_engine(const struct infer_error_text *err)
{
	ErrorData  *error = palloc0(sizeof(ErrorData));

	error->elevel = ERROR;
	error->sqlerrcode = infer_client_sqlstate(err->error);
	error->message = infer_client_text(err->message[0] != '\0' ? err->message : infer_error_name(err->error));
	if (err->detail[0] != '\0')
		error->detail = infer_client_text(err->detail);
	if (err->hint[0] != '\0')
		error->hint = infer_client_text(err->hint);
	error->assoc_context = CurrentMemoryContext;
	return error;
}

ErrorData *
infer_rows_error(InferRows *rows, int number)
{
	const RowsTicket *ticket = &rows->tickets[number];
	RowsPart   *part = &rows->parts[ticket->part];
	struct infer_error_text error;

	if (ticket->error != NULL)
		return copy_error(ticket->error);
	if (part->error != NULL)
	{
		if (part->error_data == NULL)
			part->error_data = error_of_engine(part->error);
		return part->error_data;
	}
	if (infer_client_row(part->call, ticket->row, &error) == INFER_OK)
		elog(ERROR, "ticket %d has not failed", number);
	return error_of_engine(&error);
}
