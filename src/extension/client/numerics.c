/*
 * numerics.c
 *	  The results of a statement come from devices that compute the same bits, or it ends with an error.
 *
 * Nouns
 *	scope			whose results must agree: a statement's (where it has several transactions, as a procedure
 *					that commits, those of one), or what a job's runner says (a session's); a batch scan's, too,
 *					which a cursor keeps from one statement to the next
 *
 * An engine that dies in the middle of a statement is replaced, and what was under way is sent again; but where the new
 * one computes on another device (infer.device = auto, and the GPU is gone), rows computed before and after would be
 * of two kinds.  What makes the bits of results is named by numerics_id of WELCOME.
 *
 * An answer is of the engine that its call was sent to: when it is read, that one may have gone, and another be
 * connected.
 */
#include "postgres.h"

#include "internal.h"

#include "access/xact.h"
#include "storage/proc.h"

static InferScope statement;
static TimestampTz statement_start;
static LocalTransactionId transaction;
static InferScope *scope = NULL;	/* instead of the statement's */

InferScope *
infer_client_scope(InferScope *within)
{
	InferScope *before = scope;

	scope = within;
	return before;
}

static InferScope *
current_scope(void)
{
	if (scope != NULL)
		return scope;
	/* transactions of one message, or of a worker that has no statements, begin at the same time */
	if (statement_start != GetCurrentStatementStartTimestamp() || transaction != infer_local_transaction())
	{
		statement_start = GetCurrentStatementStartTimestamp();
		transaction = infer_local_transaction();
		statement = (InferScope) {{0}};
	}
	return &statement;
}

static void
set_error(const InferScope *within, struct infer_error_text *error)
{
	error_set(error, INFER_CLIENT_LOST, "the inference engine was replaced by one that computes other bits", NULL,
			  "Run the statement again.");
	snprintf(error->detail, sizeof(error->detail), "Some rows were computed by %s, and others by %s.",
			 within->numerics_id, within->refused);
}

void
infer_client_scope_check(const InferScope *within)
{
	struct infer_error_text error;

	if (within->refused[0] == '\0')
		return;
	set_error(within, &error);
	infer_client_raise(&error);
}

void
numerics_note(InferCall *call)
{
	memcpy(call->numerics_id, connection.numerics_id, sizeof(call->numerics_id));
}

bool
numerics_agree(InferCall *call, InferScope *within)
{
	if (within == NULL)
		within = current_scope();
	if (within->numerics_id[0] == '\0')
		memcpy(within->numerics_id, call->numerics_id, sizeof(within->numerics_id));
	if (strcmp(within->numerics_id, call->numerics_id) == 0)
		return true;
	memcpy(within->refused, call->numerics_id, sizeof(within->refused));
	set_error(within, &call->error);
	return false;
}
